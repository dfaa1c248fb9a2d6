/*
 * A program that executes itself while a handler writes into its memory:
 *
 *	rewritten GENERATIONS
 *
 * A thread calls getpriority(PRIO_USER, BUFFER), whose handler writes to BUFFER
 * for as long as it can; once it does, another thread executes the program
 * again. BUFFER has the same address in every generation, and is empty where it
 * begins. Prints what it found in it, and at the end the median and the longest
 * time that an exec took.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 4096, GENERATIONS_MAX = 1000 };

static volatile char buffer[SIZE] __attribute__((aligned(SIZE)));

static long now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000L + ts.tv_nsec / 1000;
}

static void *call(void *data)
{
	for (;;) {
		syscall(SYS_getpriority, PRIO_USER, (long)buffer);
		/* Without a handler: a measure of the machine. */
		buffer[0] = 1;
	}
	return data;
}

static void check_empty(const char *when)
{
	for (int i = 0; i < SIZE; i++)
		if (buffer[i]) {
			printf("written %s\n", when);
			exit(1);
		}
}

static int compare(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return (x > y) - (x < y);
}

/* The times of all generations are in the environment, one after the other. */
static void print_times(void)
{
	static long v[GENERATIONS_MAX];
	char *text = getenv("TIMES");
	int n = 0;

	for (char *t = strtok(text, " "); t; t = strtok(NULL, " "))
		v[n++] = atol(t);
	qsort(v, (size_t)n, sizeof(*v), compare);
	printf("clean %d median %ld longest %ld\n", n, v[n / 2], v[n - 1]);
}

static void add_time(long us)
{
	static char text[GENERATIONS_MAX * 12];
	const char *before = getenv("TIMES");

	snprintf(text, sizeof(text), "%s %ld", before ? before : "", us);
	setenv("TIMES", text, 1);
}

int main(int argc, char **argv)
{
	int left = atoi(argv[1]);
	const char *began = getenv("BEGAN");
	char number[16], time[24];
	pthread_t thread;

	if (began)
		add_time(now_us() - atol(began));
	check_empty("at the beginning");
	usleep(1000);
	check_empty("soon after");
	if (left == 0) {
		print_times();
		return 0;
	}
	pthread_create(&thread, NULL, call, NULL);
	while (!buffer[0])
		usleep(100);
	snprintf(number, sizeof(number), "%d", left - 1);
	argv[1] = number;
	snprintf(time, sizeof(time), "%ld", now_us());
	setenv("BEGAN", time, 1);
	execv(argv[0], argv);
	perror("execv");
	return argc > 1;
}
