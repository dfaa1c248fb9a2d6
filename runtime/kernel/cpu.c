#include "kernel/cpu.h"

#include <sched.h>

bool cpu_is_time(void)
{
	static _Thread_local unsigned int turns;

	return turns++ % CPU_LOOK_TURNS == 0;
}

void cpu_go_to(int cpu)
{
	cpu_set_t all, one;

	if (cpu < 0 || cpu >= CPU_SETSIZE || cpu == sched_getcpu() ||
	    sched_getaffinity(0, sizeof(all), &all) < 0 ||
	    !CPU_ISSET(cpu, &all))
		return;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one) == 0)
		(void)sched_setaffinity(0, sizeof(all), &all);
}
