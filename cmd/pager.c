#include "diff.h"

#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

static pid_t pager_pid = -1;

/* A minimal system has no less. */
static const char default_pager[] =
	"command -v less >/dev/null && exec less; exec cat";

static const char *pager_command(void)
{
	const char *names[] = { "SANDLOCK_PAGER", "PAGER" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *command = getenv(names[i]);

		if (command)
			return strcmp(command, "cat") ? command : "";
	}
	return default_pager;
}

void pager_start(void)
{
	const char *command = pager_command();
	const char *argv[] = { "sh", "-c", command, NULL };
	posix_spawn_file_actions_t actions;
	int fds[2], r;

	if (!isatty(STDOUT_FILENO) || !*command)
		return;
	/* As git does: end if it fits the screen, colours, no clearing. */
	(void)setenv("LESS", "FRX", 0);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	r = posix_spawn_file_actions_init(&actions);
	if (!r) {
		r = posix_spawn_file_actions_adddup2(&actions, fds[0],
						     STDIN_FILENO);
		if (!r)
			r = posix_spawn(&pager_pid, "/bin/sh", &actions, NULL,
					(char **)argv, environ);
		(void)posix_spawn_file_actions_destroy(&actions);
	}
	if (!r)
		(void)dup2(fds[1], STDOUT_FILENO);
	else
		pager_pid = -1;
	(void)close(fds[0]);
	(void)close(fds[1]);
}

void pager_finish(void)
{
	if (pager_pid < 0)
		return;
	(void)fflush(stdout);
	(void)close(STDOUT_FILENO);
	(void)waitpid(pager_pid, NULL, 0);
	pager_pid = -1;
}
