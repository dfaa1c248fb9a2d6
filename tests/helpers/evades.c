/*
 * A thread whose call is changed while it is asked about:
 *
 *	evades DIRECTORY NAME
 *
 * It calls chdir(DIRECTORY), and when another one sees it wait there, the
 * instruction that is made again becomes another: rmdir, of the same address,
 * which says NAME by then. Prints what came of that.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

static unsigned char *code;
static const char *name;
static atomic_int tid;

static void make_it(char *path)
{
	long r;

	strcpy(path, name);
	r = syscall(SYS_rmdir, path);
	printf("rmdir %ld %s\n", r, r < 0 ? strerror(errno) : "");
	fflush(stdout);
	_exit(0);
}

static int blocked_in(int t)
{
	char path[64], text[128] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", t);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		exit(3);
	close(fd);
	return *text == 'r' ? -1 : atoi(text);
}

static void *change(void *arg)
{
	uint64_t to = (uint64_t)(uintptr_t)make_it;
	struct utsname u;
	int t;

	while (!(t = tid))
		;
	while (blocked_in(t) != SYS_chdir)
		usleep(1000);
	/* movabs $make_it, %r11; and $-16, %rsp; call *%r11 */
	memcpy(code, "\x49\xbb", 2);
	memcpy(code + 2, &to, 8);
	memcpy(code + 10, "\x48\x83\xe4\xf0\x41\xff\xd3", 7);
	uname(&u);
	return arg;
}

int main(int argc, char *argv[])
{
	pthread_t thread;
	long r;

	(void)argc;
	name = argv[2];
	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(code, "\x0f\x05\xc3", 3); /* syscall; ret */
	pthread_create(&thread, NULL, change, NULL);
	tid = (int)syscall(SYS_gettid);
	__asm__ volatile("call *%2"
			 : "=a"(r)
			 : "0"((long)SYS_chdir), "r"(code), "D"(argv[1])
			 : "rcx", "r11", "memory");
	printf("chdir %ld\n", r);
	return 0;
}
