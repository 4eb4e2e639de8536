/* The machine's interface to programs: the CSR numbers and device addresses of docs/machine.md, for C and assembly. */
#ifndef HEADWAY_MACHINE_H
#define HEADWAY_MACHINE_H

#define CSR_HWCTL 0x7C0
#define CSR_HWLATCH 0x7C1
#define CSR_HWCORR 0x7C2
#define CSR_HWBLOCK 0x7C3
#define CSR_HWLEAVE 0x7C4
#define CSR_HWWAKE 0x7C5
#define CSR_HWMON 0x7C6
#define CSR_HWSTATE 0x7C7
#define CSR_HWSW 0x800
#define CSR_HWSYNC 0x803
#define CSR_COUNTER 0xCC0      /* + n: low word of counter n, in any mode */
#define CSR_COUNTER_HIGH 0xCD0 /* + n: high word of counter n */

#define COUNTER_EPC 0
#define COUNTER_MPCI 1
#define COUNTER_MPCX 2
#define COUNTER_KPC 3
#define COUNTER_IOPC 4
#define COUNTER_RPC 5
#define COUNTER_SPC 6
#define COUNTER_OPC 7
#define COUNTER_UNHALTED 8
#define COUNTER_REFERENCE 9

#define CSR_PWSTATE 0x7D0
#define CSR_PWCLOCK 0x7D1
#define CSR_PWDUTY 0x7D2
#define CLOCK_FULL 16 /* sixteenths of the machine's clock */

#define HWCTL_HL 0x1000

#define HWSW_SWNE 1
#define HWSW_KPSW 2
#define HWSW_IOSW 4

#define STATE_NONEFFECTIVE 64
#define STATE_OVERHEAD 210

#define LATCH_INTERRUPT 1
#define LATCH_POLL 2

#define LEAVE_READY 0
#define LEAVE_MUTEX 2
#define LEAVE_SLEEP 3
#define LEAVE_JOIN 4
#define LEAVE_UART 5
#define LEAVE_BLOCK 6
#define LEAVE_CONDITION 7
#define LEAVE_QUEUE 8
#define LEAVE_END 31

#define CLINT_MSIP 0x02000000
#define CLINT_MTIMECMP 0x02004000
#define CLINT_MTIME 0x0200BFF8

#define PLIC_PRIORITY 0x0C000000
#define PLIC_ENABLE 0x0C002000
#define PLIC_THRESHOLD 0x0C200000
#define PLIC_CLAIM 0x0C200004
#define PLIC_UART_RECEIVED 1
#define PLIC_UART_CAN_SEND 2
#define PLIC_BLOCK 3
#define PLIC_SOURCES 31

#define UART_RXDATA 0x10000000
#define UART_RXSTATUS 0x10000004
#define UART_TXDATA 0x10000008
#define UART_TXSTATUS 0x1000000C
#define UART_IE 0x10000010
#define UART_IE_RECEIVED 1u
#define UART_IE_CAN_SEND 2u

#define BLOCK_SECTOR 0x10010000
#define BLOCK_ADDRESS 0x10010004
#define BLOCK_COUNT 0x10010008
#define BLOCK_COMMAND 0x1001000C
#define BLOCK_STATUS 0x10010010
#define BLOCK_IE 0x10010014
#define BLOCK_SECTORS 0x10010018
#define BLOCK_ACK 0x1001001C
#define BLOCK_READ 1
#define BLOCK_WRITE 2
#define BLOCK_BUSY 0
#define BLOCK_FAILED 2

#define MACHINE_CORES 0x10020000
#define MACHINE_THREADS 0x10020004
#define MACHINE_DIVIDER 0x10020010
#define MACHINE_STRICT 0x10020014
#define MACHINE_L1D_WAYS 0x1002001C
#define MACHINE_L2_WAYS 0x10020020

#define HARTS_MAX 128

#ifndef __ASSEMBLER__

#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define CSR_TEXT(number) #number
#define CSR_NAME(number) CSR_TEXT(number)
#define CSR_READ(number)                                                                          \
    ({                                                                                            \
        uint32_t value_;                                                                          \
        __asm__ volatile("csrr %0, " CSR_NAME(number) : "=r"(value_)::"memory");                  \
        value_;                                                                                   \
    })
#define CSR_WRITE(number, value) __asm__ volatile("csrw " CSR_NAME(number) ", %0" ::"rK"(value) : "memory")
#define CSR_SWAP(number, value)                                                                   \
    ({                                                                                            \
        uint32_t old_;                                                                            \
        __asm__ volatile("csrrw %0, " CSR_NAME(number) ", %1" : "=r"(old_) : "rK"(value) : "memory"); \
        old_;                                                                                     \
    })
#define CSR_SET(number, value) __asm__ volatile("csrs " CSR_NAME(number) ", %0" ::"rK"(value) : "memory")

/* Read a 64-bit counter, of which a hart reads 32 bits at a time. The high word is read before and after the low word,
 * and all of it again if a carry came in between. */
#define COUNTER_READ(low, high)                                                                   \
    ({                                                                                            \
        uint32_t upper_, lower_, again_;                                                          \
        do {                                                                                      \
            upper_ = CSR_READ(high);                                                              \
            lower_ = CSR_READ(low);                                                               \
            again_ = CSR_READ(high);                                                              \
        } while (upper_ != again_);                                                               \
        (uint64_t) upper_ << 32 | lower_;                                                         \
    })

/* Give tag `number` a name in the reports: HW_TAG(3, parse). */
#define HW_NAME(symbol) __asm__(".globl " symbol "\n.equ " symbol ", 0")
#define HW_TAG(number, name) HW_NAME("headway_tag_" #number "_" #name)
#define HW_POLL(number, name) HW_NAME("headway_poll_" #number "_" #name)

#endif
#endif
