#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "spec/spec.h"

/* The kernel's, not libc's: glibc keeps 32 and 33 for itself. */
enum { RT_MIN = 34, RT_MAX = 64, SIGNAL_MAX = 64 };

/* clang-format off */
static const struct {
	const char *name; /* without "SIG" */
	int sig;
} table[] = {
	{ "HUP", SIGHUP },	 { "INT", SIGINT },	  { "QUIT", SIGQUIT },
	{ "ILL", SIGILL },	 { "TRAP", SIGTRAP },	  { "ABRT", SIGABRT },
	{ "IOT", SIGIOT },	 { "BUS", SIGBUS },	  { "FPE", SIGFPE },
	{ "KILL", SIGKILL },	 { "USR1", SIGUSR1 },	  { "SEGV", SIGSEGV },
	{ "USR2", SIGUSR2 },	 { "PIPE", SIGPIPE },	  { "ALRM", SIGALRM },
	{ "TERM", SIGTERM },	 { "CHLD", SIGCHLD },	  { "CLD", SIGCHLD },
	{ "CONT", SIGCONT },	 { "STOP", SIGSTOP },	  { "TSTP", SIGTSTP },
	{ "TTIN", SIGTTIN },	 { "TTOU", SIGTTOU },	  { "URG", SIGURG },
	{ "XCPU", SIGXCPU },	 { "XFSZ", SIGXFSZ },	  { "VTALRM", SIGVTALRM },
	{ "PROF", SIGPROF },	 { "WINCH", SIGWINCH },	  { "IO", SIGIO },
	{ "POLL", SIGPOLL },	 { "PWR", SIGPWR },	  { "SYS", SIGSYS },
#ifdef SIGSTKFLT
	{ "STKFLT", SIGSTKFLT },
#endif
};
/* clang-format on */

/* 1 to 64, nothing but digits, no leading zero; else -EINVAL. */
static int parse_number(const char *s)
{
	size_t n = strspn(s, "0123456789");
	int v;

	if (n == 0 || n > 2 || s[n] != '\0' || s[0] == '0')
		return -EINVAL;
	v = atoi(s);
	return v <= SIGNAL_MAX ? v : -EINVAL;
}

/* The part behind "RTMIN" or "RTMAX": nothing, or @sign and a number. */
static int parse_realtime(const char *s, int base, char sign)
{
	int n = 0, sig;

	if (*s) {
		if (*s != sign)
			return -EINVAL;
		n = strcmp(s + 1, "0") == 0 ? 0 : parse_number(s + 1);
		if (n < 0)
			return -EINVAL;
	}
	sig = sign == '+' ? base + n : base - n;
	return sig >= RT_MIN && sig <= RT_MAX ? sig : -EINVAL;
}

int spec_signal_parse(const char *text)
{
	if (*text >= '0' && *text <= '9')
		return parse_number(text);
	if (strncasecmp(text, "SIG", 3) == 0)
		text += 3;
	if (strncasecmp(text, "RTMIN", 5) == 0)
		return parse_realtime(text + 5, RT_MIN, '+');
	if (strncasecmp(text, "RTMAX", 5) == 0)
		return parse_realtime(text + 5, RT_MAX, '-');
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (strcasecmp(table[i].name, text) == 0)
			return table[i].sig;
	return -EINVAL;
}

const char *spec_signal_name(int sig)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].sig == sig)
			return table[i].name;
	return NULL;
}
