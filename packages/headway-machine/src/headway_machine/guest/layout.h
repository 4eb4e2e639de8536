/* Offsets and sizes that the assembly shares with kernel.h, which checks them. */
#ifndef HEADWAY_LAYOUT_H
#define HEADWAY_LAYOUT_H

#define THREAD_BLOCK 128
#define THREAD_KERNEL_STACK 256
#define THREAD_MSTATUS 260
#define THREAD_ENTERED 264
#define THREAD_LEFT 268
#define BOOT_STACK 512
#define KERNEL_STACK 1024

#endif
