#include "base/fd.h"

#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct dir {
	char path[256];
	int fd;
};

static int make_dir(void **state)
{
	static struct dir d;

	d.fd = unit_tmpdir(d.path);
	*state = &d;
	return 0;
}

static int remove_dir(void **state)
{
	struct dir *d = *state;
	DIR *dir = fdopendir(d->fd);
	struct dirent *e;

	while ((e = readdir(dir)))
		if (unlinkat(d->fd, e->d_name, 0) < 0)
			(void)unlinkat(d->fd, e->d_name, AT_REMOVEDIR);
	closedir(dir);
	return rmdir(d->path);
}

static size_t count_entries(const struct dir *d)
{
	auto_dir DIR *dir = opendir(d->path);
	size_t n = 0;

	while (readdir(dir))
		n++;
	return n - 2;
}

static bool is_cloexec(int fd)
{
	return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

static void atomic_write_replaces(void **state)
{
	const struct dir *d = *state;
	auto_(buf) struct buf b = BUF_INIT;
	struct stat st;

	assert_int_equal(fd_write_atomic(d->fd, "f", "one", 3, 0640, true), 0);
	assert_int_equal(fd_write_atomic(d->fd, "f", "two!", 4, 0604, false),
			 0);
	assert_int_equal(fd_read_file(d->fd, "f", 4, &b), 0);
	assert_string_equal(buf_str(&b), "two!");
	assert_int_equal(fstatat(d->fd, "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0604);
	assert_int_equal(count_entries(d), 1);
}

static void a_failed_atomic_write_leaves_nothing(void **state)
{
	const struct dir *d = *state;

	assert_int_equal(mkdirat(d->fd, "dir", 0700), 0);
	assert_int_equal(fd_write_atomic(d->fd, "dir", "x", 1, 0600, false),
			 -EISDIR);
	assert_int_equal(fd_write_atomic(d->fd, "a/b", "x", 1, 0600, false),
			 -EINVAL);
	assert_int_equal(fd_write_atomic(d->fd, "", "x", 1, 0600, false),
			 -EINVAL);
	assert_int_equal(count_entries(d), 1);
}

static void reading_is_bounded(void **state)
{
	const struct dir *d = *state;
	auto_(buf) struct buf b = BUF_INIT;
	auto_free char *big = calloc(1, 200000);

	assert_int_equal(fd_write_atomic(d->fd, "f", big, 200000, 0600, false),
			 0);
	assert_int_equal(fd_read_file(d->fd, "f", 199999, &b), -EFBIG);
	buf_clear(&b);
	assert_int_equal(fd_read_file(d->fd, "f", 200000, &b), 0);
	assert_int_equal(b.len, 200000);
	assert_int_equal(fd_read_file(d->fd, "none", 1, &b), -ENOENT);
	buf_clear(&b);
	assert_int_equal(fd_read_file(AT_FDCWD, "/proc/self/stat", 4096, &b),
			 0);
	assert_true(b.len > 10);
	assert_int_equal(fd_read_file(d->fd, ".", 1, &b), -EISDIR);
}

static void pipes_are_read_to_the_end(void **state)
{
	char data[8] = "";
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(fd_write_full(p[1], "abcde", 5), 0);
	assert_int_equal(fd_read_full(p[0], data, 3), 3);
	close(p[1]);
	assert_int_equal(fd_read_full(p[0], data, 8), 2);
	assert_int_equal(fd_read_full(p[0], data, 8), 0);
	close(p[0]);
	assert_int_equal(fd_read_full(p[0], data, 8), -EBADF);
}

static void write_file_needs_the_file(void **state)
{
	const struct dir *d = *state;

	assert_int_equal(fd_write_file(d->fd, "f", "x"), -ENOENT);
	assert_int_equal(fd_write_atomic(d->fd, "f", "", 0, 0600, false), 0);
	assert_int_equal(fd_write_file(d->fd, "f", "x"), 0);
}

static void beneath_follows_nothing(void **state)
{
	const struct dir *d = *state;
	int fd;

	assert_int_equal(fd_write_atomic(d->fd, "f", "", 0, 0600, false), 0);
	assert_int_equal(symlinkat("f", d->fd, "link"), 0);
	assert_int_equal(symlinkat("/etc/passwd", d->fd, "out"), 0);
	fd = fd_open_beneath(d->fd, "f", O_RDONLY, 0);
	assert_true(fd >= 0 && is_cloexec(fd));
	close(fd);
	assert_int_equal(fd_open_beneath(d->fd, "link", O_RDONLY, 0), -ELOOP);
	assert_int_equal(fd_open_beneath(d->fd, "..", O_PATH, 0), -EXDEV);
	assert_int_equal(fd_open_beneath(d->fd, "/", O_PATH, 0), -EXDEV);
	assert_int_equal(fd_open_in_root(d->fd, "out", O_RDONLY, 0), -ENOENT);
	fd = fd_open_in_root(d->fd, "/../link", O_RDONLY, 0);
	assert_true(fd >= 0 && is_cloexec(fd));
	close(fd);
}

static void the_deepest_that_is_there_is_opened(void **state)
{
	static const struct {
		const char *path;
		size_t len;
		int why;
	} rows[] = {
		{ "/", 1, 0 },
		{ "/link", 5, 0 },
		{ "/f/x/y", 2, -ENOTDIR },
		{ "/none/f", 0, -ENOENT },
		{ "/../out", 3, -ENOENT },
	};
	const struct dir *d = *state;

	assert_int_equal(fd_write_atomic(d->fd, "f", "", 0, 0600, false), 0);
	assert_int_equal(symlinkat("f", d->fd, "link"), 0);
	assert_int_equal(symlinkat("/etc/passwd", d->fd, "out"), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = 99;
		int why = 99;
		int fd = fd_open_deepest(d->fd, rows[i].path, &len, &why);

		assert_true(fd >= 0 && is_cloexec(fd));
		close(fd);
		assert_int_equal(len, rows[i].len);
		assert_int_equal(why, rows[i].why);
	}
}

static void reopen_gives_another_mode(void **state)
{
	const struct dir *d = *state;
	auto_close int path_fd = -1;
	auto_close int fd = -1;
	char c;

	assert_int_equal(fd_write_atomic(d->fd, "f", "x", 1, 0600, false), 0);
	path_fd = openat(d->fd, "f", O_PATH | O_CLOEXEC);
	fd = fd_reopen(path_fd, O_RDONLY);
	assert_true(fd >= 0 && is_cloexec(fd));
	assert_int_equal(fd_read_full(fd, &c, 1), 1);
	assert_int_equal(c, 'x');
}

static void links_are_read_whole(void **state)
{
	const struct dir *d = *state;
	char text[PATH_MAX], got[PATH_MAX];
	auto_close int link_fd = -1;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(symlinkat(text, d->fd, "link"), 0);
	assert_int_equal(fd_read_link(d->fd, "link", got), 0);
	assert_string_equal(got, text);
	link_fd = openat(d->fd, "link", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	*got = '\0';
	assert_int_equal(fd_read_link(link_fd, "", got), 0);
	assert_string_equal(got, text);
	assert_int_equal(fd_read_link(d->fd, "none", got), -ENOENT);
	assert_int_equal(fd_path(d->fd, got), 0);
	assert_string_equal(got, d->path);
}

static void descriptors_are_passed(void **state)
{
	int s[2], fds[2], got[4];
	size_t room = 4;
	char data[16];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(fd_send(s[0], "hello", 5, fds, 2), 0);
	assert_int_equal(fd_recv(s[1], data, sizeof(data), got, &room), 5);
	assert_int_equal(room, 2);
	assert_true(is_cloexec(got[0]) && is_cloexec(got[1]));
	close(got[0]);
	close(got[1]);
	assert_int_equal(fd_send(s[0], "plain", 5, NULL, 0), 0);
	room = 4;
	assert_int_equal(fd_recv(s[1], data, sizeof(data), got, &room), 5);
	assert_int_equal(room, 0);
	close(fds[0]);
	close(fds[1]);
	close(s[0]);
	assert_int_equal(fd_recv(s[1], data, sizeof(data), NULL, NULL), 0);
	close(s[1]);
}

static size_t count_fds(void)
{
	auto_dir DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(dir))
		n++;
	return n;
}

static void unwanted_descriptors_are_closed(void **state)
{
	int s[2], fds[2], got[1];
	size_t room = 1, before;
	char data[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	before = count_fds();
	assert_int_equal(fd_send(s[0], "x", 1, fds, 2), 0);
	assert_int_equal(fd_recv(s[1], data, 2, got, &room), -EMSGSIZE);
	assert_int_equal(fd_send(s[0], "x", 1, fds, 1), 0);
	assert_int_equal(fd_recv(s[1], data, 2, NULL, NULL), -EMSGSIZE);
	assert_int_equal(fd_send(s[0], "too long", 8, fds, 1), 0);
	room = 1;
	assert_int_equal(fd_recv(s[1], data, 2, got, &room), -EMSGSIZE);
	assert_int_equal(count_fds(), before);
	assert_int_equal(fd_send(s[0], "x", 1, fds, 17), -EINVAL);
	close(s[1]);
	assert_int_equal(fd_send(s[0], "x", 1, NULL, 0), -EPIPE);
	close(s[0]);
	close(fds[0]);
	close(fds[1]);
}

static void cloexec_from_leaves_the_lower_ones(void **state)
{
	int low = dup(0);
	int high = fcntl(low, F_DUPFD, low + 10);

	assert_true(low >= 0 && high > low);
	assert_int_equal(fd_cloexec_from((unsigned int)low + 1), 0);
	assert_false(is_cloexec(low));
	assert_true(is_cloexec(high));
	close(low);
	close(high);
}

/* However quick the kernel is: it is not to look before there is a cycle. */
static void what_is_let_go_is_closed_soon(void **state)
{
	for (int i = 0; i < 10; i++) {
		struct pollfd p = { .events = POLLIN };
		int fds[2];

		assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
		fd_let_go(fds[1]);
		assert_int_equal(fcntl(fds[1], F_GETFD), -1);
		p.fd = fds[0];
		assert_int_equal(poll(&p, 1, 30000), 1);
		assert_true(p.revents & POLLHUP);
		close(fds[0]);
	}
}

static int std_is_made(void)
{
	close(0);
	close(2);
	if (fd_ensure_std() < 0)
		return 1;
	return fd_is_null_device(0) && fd_is_null_device(2) && !is_cloexec(0)
		       ? 0
		       : 2;
}

static void std_descriptors_are_made(void **state)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(std_is_made());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define DIR_TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DIR_TEST(atomic_write_replaces),
		DIR_TEST(a_failed_atomic_write_leaves_nothing),
		DIR_TEST(reading_is_bounded),
		cmocka_unit_test(pipes_are_read_to_the_end),
		DIR_TEST(write_file_needs_the_file),
		DIR_TEST(beneath_follows_nothing),
		DIR_TEST(the_deepest_that_is_there_is_opened),
		DIR_TEST(reopen_gives_another_mode),
		DIR_TEST(links_are_read_whole),
		cmocka_unit_test(descriptors_are_passed),
		cmocka_unit_test(unwanted_descriptors_are_closed),
		cmocka_unit_test(cloexec_from_leaves_the_lower_ones),
		cmocka_unit_test(what_is_let_go_is_closed_soon),
		cmocka_unit_test(std_descriptors_are_made),
	};

	return RUN_TESTS(tests);
}
