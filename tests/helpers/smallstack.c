/*
 * Executes a program as Go does: from a small stack in the middle of a heap,
 * in a process that shares the memory until then.
 *
 *	smallstack PROGRAM [ARGUMENTS]
 *
 * Says what else in the heap has changed meanwhile.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1024 * 1024, STACK_SIZE = 16 * 1024, MARK = 0xab };

static int child(void *arg)
{
	char **args = arg;

	(void)execv(args[0], args);
	_exit(127);
}

int main(int argc, char **argv)
{
	unsigned char *heap = malloc(SIZE);
	int status = -1, changed = 0, n;
	char **args;
	pid_t pid;

	if (argc < 2 || !heap)
		return 1;
	n = argc > 2 ? atoi(argv[2]) : 1;
	args = calloc((size_t)n + 1, sizeof(*args));
	for (int i = 0; args && i < n; i++)
		args[i] = argv[1];
	memset(heap, MARK, SIZE);
	pid = clone(child, heap + SIZE / 2 + STACK_SIZE,
		    CLONE_VM | CLONE_VFORK | SIGCHLD, args);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return 1;
	for (int i = 0; i < SIZE / 2; i++)
		changed += heap[i] != MARK;
	printf("status %d, changed %d\n", status, changed);
	return 0;
}
