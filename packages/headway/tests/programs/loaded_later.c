/* A library that is loaded while its program runs. */
__attribute__((noinline)) void call_later(void (*function)(void))
{
    volatile int after = 0;
    function();
    after = 1;
    (void)after;
}
