/* crowd N: so many threads call getppid at once; how many of them got 7. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STACK = 64 * 1024, MOST = 1000 };

static atomic_int right, wrong;

static void *call(void *data)
{
	++*(syscall(SYS_getppid) == 7 ? &right : &wrong);
	return data;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 0;
	static pthread_t threads[MOST];
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	for (int i = 0; i < n && i < MOST; i++)
		if (pthread_create(&threads[i], &attr, call, NULL))
			return 1;
	for (int i = 0; i < n && i < MOST; i++)
		pthread_join(threads[i], NULL);
	printf("%d right, %d wrong\n", right, wrong);
	return 0;
}
