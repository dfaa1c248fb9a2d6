/*
 * What a payload with CAP_SYS_PTRACE does to processes that enter its pid
 * namespace: seizes and stops each as soon as there is one, and says on a line
 * what it has got hold of: the program, its capabilities, its seccomp mode, and
 * whether HOST_SECRET is in its environment.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* More than come and go while we do not run. */
enum { AHEAD = 32 };

static size_t read_proc(pid_t pid, const char *name, char *to, size_t room)
{
	char path[64];
	size_t n = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	f = fopen(path, "re");
	if (f) {
		n = fread(to, 1, room - 1, f);
		(void)fclose(f);
	}
	to[n] = '\0';
	return n;
}

static void say_status(const char *status, const char *field)
{
	const char *at = strstr(status, field);

	at = at ? at + strlen(field) : "?";
	at += strspn(at, " \t");
	printf(" %s%.*s", field + 1, (int)strcspn(at, "\n"), at);
}

static void look_into(pid_t pid)
{
	static char buf[65536];
	char path[64], exe[256];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	exe[n < 0 ? 0 : n] = '\0';
	printf("exe:%s", exe);
	(void)read_proc(pid, "status", buf, sizeof(buf));
	say_status(buf, "\nCapPrm:");
	say_status(buf, "\nSeccomp:");
	n = (ssize_t)read_proc(pid, "environ", buf, sizeof(buf));
	printf(" secret:%s\n",
	       memmem(buf, (size_t)n, "HOST_SECRET", 11) ? "yes" : "no");
	(void)fflush(stdout);
}

int main(void)
{
	pid_t next = getpid() + 1;
	int status;

	for (;;)
		for (pid_t pid = next; pid < next + AHEAD; pid++) {
			if (ptrace(PTRACE_SEIZE, pid, 0, 0) < 0)
				continue;
			if (ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0 &&
			    waitpid(pid, &status, __WALL) == pid &&
			    WIFSTOPPED(status)) {
				look_into(pid);
				(void)ptrace(PTRACE_DETACH, pid, 0, 0);
			}
			/* One that ended instead shows nothing any more. */
			next = pid + 1;
			break;
		}
}
