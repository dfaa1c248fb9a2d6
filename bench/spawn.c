/*
 * spawn: starts commands for bench/run and says how long each took. One such
 * process for each contender, so that all of them pay the same.
 *
 * A request is a line of fields that are separated by byte 31: a count, then
 * the words of the command, in which "{}" stands for 0 .. count-1. That many
 * are started at once and waited for. The answer is one line:
 *
 *	NANOSECONDS FAILURES MAXRSS-KIB
 *
 * Standard input and output of the commands are /dev/null, standard error is
 * our own.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORDS = 4096, MAX_COUNT = 1024 };

extern char **environ;

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static char *with_number(const char *word, int number)
{
	const char *brace = strstr(word, "{}");
	char *text;

	if (!brace)
		return (char *)word;
	if (asprintf(&text, "%.*s%d%s", (int)(brace - word), word, number,
		     brace + 2) < 0)
		err(1, "out of memory");
	return text;
}

static pid_t start(char **words, size_t n, int number,
		   const posix_spawn_file_actions_t *actions)
{
	char *argv[MAX_WORDS + 1];
	pid_t pid;

	for (size_t i = 0; i < n; i++)
		argv[i] = with_number(words[i], number);
	argv[n] = NULL;
	errno = posix_spawnp(&pid, argv[0], actions, NULL, argv, environ);
	if (errno)
		err(1, "%s", argv[0]);
	return pid;
}

static void serve(char *line, const posix_spawn_file_actions_t *actions)
{
	char *words[MAX_WORDS], *save = NULL;
	char *word = strtok_r(line, "\x1f\n", &save);
	int count = word ? atoi(word) : 0, failures = 0;
	long long begin;
	long maxrss = 0;
	size_t n = 0;

	while ((word = strtok_r(NULL, "\x1f\n", &save)) && n < MAX_WORDS)
		words[n++] = word;
	if (!n || count < 1 || count > MAX_COUNT)
		errx(1, "bad request");
	begin = now_ns();
	for (int i = 0; i < count; i++)
		(void)start(words, n, i, actions);
	for (int i = 0; i < count; i++) {
		struct rusage usage;
		int status;

		if (wait4(-1, &status, 0, &usage) < 0)
			err(1, "wait4");
		failures += status != 0;
		if (usage.ru_maxrss > maxrss)
			maxrss = usage.ru_maxrss;
	}
	printf("%lld %d %ld\n", now_ns() - begin, failures, maxrss);
	fflush(stdout);
}

int main(void)
{
	posix_spawn_file_actions_t actions;
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	char *line = NULL;
	size_t cap = 0;

	if (null_fd < 0 || posix_spawn_file_actions_init(&actions) ||
	    posix_spawn_file_actions_adddup2(&actions, null_fd, 0) ||
	    posix_spawn_file_actions_adddup2(&actions, null_fd, 1))
		err(1, "cannot prepare");
	while (getline(&line, &cap, stdin) > 0)
		serve(line, &actions);
	return 0;
}
