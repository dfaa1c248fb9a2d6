/*
 * On which CPU a thread runs. Two that wait for each other in turns are fast on
 * one: waking up an idle CPU takes longer than all that is said, tens of
 * microseconds in a virtual machine.
 */
#ifndef SANDLOCK_KERNEL_CPU_H
#define SANDLOCK_KERNEL_CPU_H

#include <stdbool.h>

/* How often, in turns, it is worth to look for the other one. */
enum { CPU_LOOK_TURNS = 64 };

/* The calling thread's turn: true if it is to look. */
bool cpu_is_time(void);

/*
 * Moves the calling thread to @cpu, once: it is not bound, and goes where the
 * scheduler wants it afterwards. Nothing if it may not run there.
 */
void cpu_go_to(int cpu);

#endif
