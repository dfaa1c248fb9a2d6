/*
 * probe: what a payload tries or looks at, where a shell cannot. Static, so
 * that it runs in any bundle.
 *
 *	probe WHAT [ARGUMENT]...
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static int say(const char *what, long ret)
{
	printf("%s: %s\n", what, ret < 0 ? strerrorname_np(errno) : "ok");
	return ret < 0 ? 1 : 0;
}

/* A fault, which ends even a pid 1. */
static int do_segv(char **a)
{
	(void)a;
	*(volatile int *)NULL = 1;
	return 0;
}

static int do_signal(char **a)
{
	struct rlimit none = { 0, 0 };

	(void)setrlimit(RLIMIT_CORE, &none);
	raise(atoi(a[0]));
	return 0;
}

static int do_mknod(char **a)
{
	return say("mknod",
		   mknod(a[0], S_IFCHR | 0600,
			 makedev((unsigned)atoi(a[1]), (unsigned)atoi(a[2]))));
}

static int do_mount(char **a)
{
	return say("mount", mount(a[0], a[1], a[2], 0, a[3]));
}

static int do_umount(char **a)
{
	return say("umount", umount2(a[0], MNT_DETACH));
}

static int do_remount_rw(char **a)
{
	return say("remount",
		   mount(NULL, a[0], NULL, MS_REMOUNT | MS_BIND, NULL));
}

static int do_unshare(char **a)
{
	(void)a;
	return say("unshare", unshare(CLONE_NEWNS));
}

static int do_tiocsti(char **a)
{
	char c = 'x';

	(void)a;
	return say("tiocsti", ioctl(0, TIOCSTI, &c));
}

/* Has this process a controlling terminal? */
static int do_ctty(char **a)
{
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);

	(void)a;
	return say("ctty", fd);
}

static int do_winsize(char **a)
{
	struct winsize w;

	(void)a;
	if (ioctl(0, TIOCGWINSZ, &w) < 0)
		return say("winsize", -1);
	printf("%d %d\n", w.ws_row, w.ws_col);
	return 0;
}

/* Open fds and what they are, our own directory fd left out. */
static int do_fds(char **a)
{
	char path[64], target[4096];

	(void)a;
	for (int fd = 0; fd < 4096; fd++) {
		ssize_t n;

		if (fcntl(fd, F_GETFD) < 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		printf("%d %.*s\n", fd, n < 0 ? 1 : (int)n,
		       n < 0 ? "?" : target);
	}
	return 0;
}

static int do_rlimit(char **a)
{
	struct rlimit lim;

	if (getrlimit(atoi(a[0]), &lim) < 0)
		return say("rlimit", -1);
	printf("%llu %llu\n", (unsigned long long)lim.rlim_cur,
	       (unsigned long long)lim.rlim_max);
	return 0;
}

static int do_landlock(char **a)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
			   LANDLOCK_CREATE_RULESET_VERSION);

	(void)a;
	printf("%ld\n", abi > 0 ? abi : 0);
	return 0;
}

static int do_nnp(char **a)
{
	(void)a;
	printf("%d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	return 0;
}

static int do_personality(char **a)
{
	(void)a;
	printf("%lx\n", syscall(SYS_personality, 0xffffffff));
	return 0;
}

static int do_syscall(char **a)
{
	return say("syscall", syscall(atol(a[0]), 0, 0, 0, 0, 0, 0));
}

/* Writes and keeps @n bytes of memory. */
static int do_eat(char **a)
{
	size_t n = (size_t)atol(a[0]);
	char *p = malloc(n);

	if (!p)
		return say("eat", -1);
	memset(p, 1, n);
	printf("eaten %d\n", p[n - 1]);
	return 0;
}

static int do_forks(char **a)
{
	int n = atoi(a[0]), made = 0;

	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0) {
			pause();
			_exit(0);
		}
		made++;
	}
	printf("forked %d\n", made);
	fflush(stdout);
	return 0;
}

/* renameat(2) as a 32-bit program of x86 calls it. */
static int do_rename32(char **a)
{
#ifdef __x86_64__
	enum { NR_RENAMEAT = 302, ROOM = 4096 };
	char *at = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	long r = NR_RENAMEAT;

	(void)snprintf(at, ROOM, "%s", a[0]);
	(void)snprintf(at + ROOM, ROOM, "%s", a[1]);
	__asm__ volatile("int $0x80"
			 : "+a"(r)
			 : "b"(AT_FDCWD), "c"(at), "d"(AT_FDCWD), "S"(at + ROOM)
			 : "memory", "r8", "r9", "r10", "r11");
	errno = (int)-(int32_t)r;
	return say("rename32", (int32_t)r < 0 ? -1 : 0);
#else
	return say("rename32", 0);
#endif
}

/* rename(2) or renameat2 with RENAME_EXCHANGE, as the third argument says. */
static int do_rename(char **a)
{
	return say("rename", renameat2(AT_FDCWD, a[0], AT_FDCWD, a[1],
				       a[2] ? (unsigned)atoi(a[2]) : 0));
}

/* Sends a datagram to $NOTIFY_SOCKET. */
static int do_notify(char **a)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path ? path : "");
	return say("notify", sendto(fd, a[0], strlen(a[0]), 0,
				    (struct sockaddr *)&to, sizeof(to)));
}

static int do_socket(char **a)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(un.sun_path, a[0], sizeof(un.sun_path) - 1);
	return say("bind", bind(fd, (void *)&un, sizeof(un)));
}

/* Asks a control socket; says what it answers, or why there is nobody. */
static int do_ask(char **a)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	unsigned char head[4] = { 0, 0, (unsigned char)(strlen(a[1]) >> 8),
				  (unsigned char)strlen(a[1]) };
	char text[4096];
	ssize_t n, len = 0;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(un.sun_path, a[0], sizeof(un.sun_path) - 1);
	if (connect(fd, (void *)&un, sizeof(un)) < 0)
		return say("connect", -1);
	/* It may have answered already, and closed. */
	(void)send(fd, head, 4, MSG_NOSIGNAL);
	(void)send(fd, a[1], strlen(a[1]), MSG_NOSIGNAL);
	while (len < (ssize_t)sizeof(text) - 1 &&
	       (n = read(fd, text + len, sizeof(text) - 1 - (size_t)len)) > 0)
		len += n;
	text[len] = '\0';
	printf("%s\n", len > 4 ? text + 4 : "nothing");
	return 0;
}

/* Opens for writing without writing, as an editor may. */
static int do_touch_open(char **a)
{
	return say("open", open(a[0], O_RDWR | O_CLOEXEC));
}

static int do_utime(char **a)
{
	struct timespec t[2] = { { atol(a[1]), 5 }, { atol(a[1]), 7 } };

	return say("utime", utimensat(AT_FDCWD, a[0], t, AT_SYMLINK_NOFOLLOW));
}

static int do_setxattr(char **a)
{
	return say("setxattr",
		   syscall(SYS_lsetxattr, a[0], a[1], a[2], strlen(a[2]), 0));
}

static int do_removexattr(char **a)
{
	return say("removexattr", syscall(SYS_lremovexattr, a[0], a[1]));
}

/* A file with a hole: data at the start and at @offset. */
static int do_sparse(char **a)
{
	int fd = open(a[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (pwrite(fd, "head", 4, 0) != 4 ||
	    pwrite(fd, "tail", 4, atol(a[1])) != 4)
		return say("sparse", -1);
	return 0;
}

/* Makes a chain of @n directories with a file at its end. */
static int do_deep(char **a)
{
	if (chdir(a[0]) < 0)
		return say("deep", -1);
	for (int i = 0; i < atoi(a[1]); i++)
		if (mkdir("a-directory-with-a-rather-long-name", 0755) < 0 ||
		    chdir("a-directory-with-a-rather-long-name") < 0)
			return say("deep", -1);
	return say("deep", open("end", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
}

/* Removes what `deep` made, which no path string can name. */
static int do_undeep(char **a)
{
	const char *name = "a-directory-with-a-rather-long-name";

	if (chdir(a[0]) < 0)
		return say("undeep", -1);
	while (chdir(name) == 0)
		;
	if (unlink("end") < 0)
		return say("undeep", -1);
	for (int i = 0; i < atoi(a[1]); i++)
		if (chdir("..") < 0 || rmdir(name) < 0)
			return say("undeep", -1);
	return 0;
}

static int do_sleep_ignoring(char **a)
{
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	if (a[0] && !strcmp(a[0], "daemons"))
		for (int i = 0; i < 5; i++)
			if (fork() == 0) {
				setsid();
				break;
			}
	printf("ready\n");
	fflush(stdout);
	for (;;)
		pause();
	return 0;
}

static int do_abstract(char **a)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(un.sun_path + 1, a[0], sizeof(un.sun_path) - 2);
	return say("connect", connect(fd, (void *)&un,
				      (socklen_t)(sizeof(sa_family_t) + 1 +
						  strlen(a[0]))));
}

static int do_ids(char **a)
{
	gid_t g[64];
	int n = getgroups(64, g);

	(void)a;
	printf("%u %u", getuid(), getgid());
	for (int i = 0; i < n; i++)
		printf(" %u", g[i]);
	putchar('\n');
	return 0;
}

static int do_exchange_loop(char **a)
{
	for (;;)
		(void)renameat2(AT_FDCWD, a[0], AT_FDCWD, a[1],
				RENAME_EXCHANGE);
	return 0;
}

/* clang-format off */
static const struct {
	const char *name;
	int n_args; /* at least */
	int (*fn)(char **a);
} table[] = {
	{ "abstract",      1, do_abstract },
	{ "ask",           2, do_ask },
	{ "ctty",          0, do_ctty },
	{ "deep",          2, do_deep },
	{ "eat",           1, do_eat },
	{ "exchange-loop", 2, do_exchange_loop },
	{ "fds",           0, do_fds },
	{ "forks",         1, do_forks },
	{ "ids",           0, do_ids },
	{ "ignore",        0, do_sleep_ignoring },
	{ "landlock",      0, do_landlock },
	{ "mknod",         3, do_mknod },
	{ "mount",         4, do_mount },
	{ "nnp",           0, do_nnp },
	{ "personality",   0, do_personality },
	{ "remount-rw",    1, do_remount_rw },
	{ "removexattr",   2, do_removexattr },
	{ "rename",        2, do_rename },
	{ "rename32",      2, do_rename32 },
	{ "notify",        1, do_notify },
	{ "rlimit",        1, do_rlimit },
	{ "segv",          0, do_segv },
	{ "setxattr",      3, do_setxattr },
	{ "signal",        1, do_signal },
	{ "socket",        1, do_socket },
	{ "sparse",        2, do_sparse },
	{ "syscall",       1, do_syscall },
	{ "tiocsti",       0, do_tiocsti },
	{ "touch-open",    1, do_touch_open },
	{ "undeep",        2, do_undeep },
	{ "umount",        1, do_umount },
	{ "unshare",       0, do_unshare },
	{ "utime",         2, do_utime },
	{ "winsize",       0, do_winsize },
};
/* clang-format on */

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (argc >= 2 && !strcmp(argv[1], table[i].name)) {
			if (argc - 2 < table[i].n_args)
				errx(2, "too few arguments");
			return table[i].fn(argv + 2);
		}
	errx(2, "unknown request");
}
