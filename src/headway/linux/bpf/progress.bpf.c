char LICENSE[] __attribute__((section("license"), used)) = "Dual BSD/GPL";
