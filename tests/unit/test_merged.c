/*
 * The merged view against the kernel's overlay of the same lower: the same
 * random calls must have the same results and leave the same upper.
 */
#include "tree_calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "branch/merged.h"

static char top[64];
static int layers; /* of stages before this one */

static void sh(const char *script)
{
	char *cmd;

	assert_true(asprintf(&cmd, "cd %s && %s", top, script) > 0);
	assert_int_equal(system(cmd), 0);
	free(cmd);
}

static void setup(void)
{
	strcpy(top, "/var/tmp/sandlock-merged-XXXXXX");
	assert_non_null(mkdtemp(top));
	sh(lower_script);
	sh("mkdir kernel mine; for d in kernel mine; do"
	   " mkdir $d/upper $d/work $d/view;"
	   " touch -d @1000000000 $d/upper; done");
}

static int mount_view(const char *which)
{
	char *o, *view, *below = NULL;
	int r;

	for (int i = 1; i <= layers; i++) {
		char *more;

		assert_true(asprintf(&more, "%s/%s/layer%d:%s", top, which, i,
				     below ? below : "") > 0);
		free(below);
		below = more;
	}
	assert_true(asprintf(&o,
			     "lowerdir=%s%s/lower,upperdir=%s/%s/upper,"
			     "workdir=%s/%s/work,redirect_dir=nofollow,"
			     "metacopy=off,index=off",
			     below ? below : "", top, top, which, top,
			     which) > 0);
	free(below);
	assert_true(asprintf(&view, "%s/%s/view", top, which) > 0);
	r = mount("overlay", view, "overlay", 0, o);
	free(o);
	assert_int_equal(r, 0);
	r = open(view, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(r >= 0);
	free(view);
	return r;
}

static void unmount_view(const char *which)
{
	char *view;

	assert_true(asprintf(&view, "%s/%s/view", top, which) > 0);
	assert_int_equal(umount2(view, 0), 0);
	free(view);
}

/* The next stage begins. */
static void push(const char *which)
{
	char *cmd;

	assert_true(asprintf(&cmd,
			     "cd %s/%s && mv upper layer%d && mkdir upper &&"
			     " rm -rf work && mkdir work &&"
			     " chmod --reference=layer%d upper &&"
			     " touch -r layer%d upper",
			     top, which, layers + 1, layers + 1,
			     layers + 1) > 0);
	assert_int_equal(system(cmd), 0);
	free(cmd);
}

static void teardown(void)
{
	char *cmd;

	layers = 0;

	assert_true(asprintf(&cmd, "rm -rf %s", top) > 0);
	assert_int_equal(system(cmd), 0);
	free(cmd);
}

static int open_top_for(const char *name, int flags)
{
	char *path;
	int fd;

	assert_true(asprintf(&path, "%s/%s", top, name) > 0);
	fd = open(path, flags | O_CLOEXEC);
	assert_true(fd >= 0);
	free(path);
	return fd;
}

static int open_top(const char *name)
{
	return open_top_for(name, O_RDONLY | O_DIRECTORY);
}

static struct merged *open_mine(void)
{
	int lower = open_top("lower"), upper = open_top("mine/upper");
	int work = open_top("mine/work");
	struct merged *m = merged_new(lower, upper, work, "trusted.overlay.");

	assert_non_null(m);
	for (int i = layers; i > 0; i--) {
		char name[32];
		int fd;

		(void)snprintf(name, sizeof(name), "mine/layer%d", i);
		fd = open_top(name);
		assert_int_equal(merged_add_layer(m, fd), 0);
		(void)close(fd);
	}
	(void)close(lower);
	(void)close(upper);
	(void)close(work);
	return m;
}

/* ------------------------------------------------------------ snapshots -- */

/* Opaque counts only where the lower has a directory: @lower_fd. */
static void shoot(struct buf *out, int dirfd, int lower_fd, const char *name,
		  const char *path, bool is_upper)
{
	char link[256] = "", value[32] = "", link_path[PATH_MAX];
	struct stat st, low;
	char text[64] = "";
	int fd;

	assert_int_equal(fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	/* Whose it is, and when it was made, means nothing. */
	if (S_ISCHR(st.st_mode) && st.st_rdev == 0) {
		buf_printf(out, "%s whiteout\n", path);
		return;
	}
	buf_printf(out, "%s %o %u:%u %s", path, st.st_mode, st.st_uid,
		   st.st_gid, st.st_mtim.tv_sec == OLD ? "old" : "new");
	if (S_ISLNK(st.st_mode) &&
	    readlinkat(dirfd, name, link, sizeof(link) - 1) >= 0)
		buf_printf(out, " -> %s", link);
	if (S_ISREG(st.st_mode)) {
		fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_true(read(fd, text, sizeof(text) - 1) >= 0);
		(void)close(fd);
		buf_printf(out, " %jd n%u %s", (intmax_t)st.st_size,
			   (unsigned int)st.st_nlink, text);
	}
	(void)snprintf(link_path, sizeof(link_path), "/proc/self/fd/%d/%s",
		       dirfd, name);
	if (lgetxattr(link_path, "user.k", value, sizeof(value) - 1) > 0)
		buf_printf(out, " k=%s", value);
	if (is_upper && lower_fd >= 0 && S_ISDIR(st.st_mode) &&
	    fstatat(lower_fd, name, &low, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(low.st_mode) &&
	    lgetxattr(link_path, "trusted.overlay.opaque", value, 1) == 1) {
		buf_add_str(out, " opaque");
		lower_fd = -1;
	}
	buf_add_char(out, '\n');
	if (!S_ISDIR(st.st_mode))
		return;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	lower_fd = lower_fd < 0 ? -1
				: openat(lower_fd, name,
					 O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
						 O_CLOEXEC);
	for (const char *const *n =
		     (const char *const[]){ "a", "b", "c", "d", NULL };
	     *n; n++) {
		char sub[PATH_MAX];

		(void)snprintf(sub, sizeof(sub), "%s/%s", path, *n);
		if (fstatat(fd, *n, &st, AT_SYMLINK_NOFOLLOW) == 0)
			shoot(out, fd, lower_fd, *n, sub, is_upper);
	}
	(void)close(fd);
	if (lower_fd >= 0)
		(void)close(lower_fd);
}

static char *shot_of(const char *dir, bool is_upper)
{
	struct buf b = BUF_INIT;
	int fd = open_top(dir), lower = open_top("lower");

	shoot(&b, fd, lower, ".", "", is_upper);
	(void)close(fd);
	(void)close(lower);
	return buf_take(&b, NULL);
}

/* ---------------------------------------------------------------- mine -- */

static bool follows(enum op op)
{
	switch (op) {
	case OP_APPEND:
	case OP_TRUNC:
	case OP_OPEN_RDWR:
	case OP_READ:
	case OP_CHMOD:
	case OP_SETXATTR:
	case OP_LIST:
		return true;
	default:
		return false;
	}
}

static int resolve(struct merged *m, const char *path, bool follow,
		   char ret[PATH_MAX])
{
	struct merged_place *p = calloc(1, sizeof(*p));
	int r;

	assert_non_null(p);
	r = merged_resolve(m, "", merged_lower(m), path,
			   follow ? MERGED_FOLLOW : 0, p);
	if (r == 0 && p->is_outside)
		r = -EXDEV;
	strcpy(ret, p->path);
	free(p);
	return r;
}

/* Other kinds have no such attributes. */
static bool has_xattrs(struct merged *m, const char *path)
{
	struct stat st = { .st_mode = 0 };
	int fd = -1;

	if (merged_find(m, path, &fd) < 0)
		return true;
	assert_int_equal(fstat(fd, &st), 0);
	(void)close(fd);
	return S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
}

static int change_mine(struct merged *m, const struct what *w, const char *a)
{
	const struct timespec t[2] = { { w->n, 0 }, { w->n, 0 } };
	char link[FD_PATH_MAX];
	int fd = -1, r;

	if (w->op == OP_SETXATTR && !has_xattrs(m, a))
		return -EPERM;
	r = merged_copy_up(m, a, &fd);
	if (r < 0)
		return r;
	(void)fd_proc_path(fd, link);
	if (w->op == OP_CHMOD)
		r = chmod(link, w->n & 07777);
	else if (w->op == OP_CHOWN)
		r = fchownat(fd, "", w->n % 5, 1,
			     AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
	else if (w->op == OP_UTIME)
		r = utimensat(fd, "", t, AT_EMPTY_PATH);
	else
		r = setxattr(link, "user.k", "x", 1, 0);
	r = r < 0 ? -errno : 0;
	(void)close(fd);
	return r;
}

static int list_mine(struct merged *m, const char *a, char seen[256])
{
	struct merged_list l = MERGED_LIST_INIT;
	int r = merged_readdir(m, a, &l);

	for (size_t i = 0; r == 0 && i < l.n; i++)
		(void)strncat(seen, l.v[i].name, 2);
	merged_list_done(&l);
	return r;
}

static int on_mine(struct merged *m, const struct what *w, char seen[256])
{
	char a[PATH_MAX], b[PATH_MAX];
	int fd = -1, r = resolve(m, w->a, follows(w->op), a);

	/* In the order of the kernel. */
	if (r == 0 && w->op == OP_LINK) {
		r = merged_find(m, a, &fd);
		cleanup_close(&fd);
		fd = -1;
	}
	if (r == 0 && (w->op == OP_LINK || w->op == OP_RENAME ||
		       w->op == OP_EXCHANGE || w->op == OP_NOREPLACE))
		r = resolve(m, w->b, false, b);
	if (r < 0)
		return r;
	switch (w->op) {
	case OP_CREATE:
	case OP_APPEND:
	case OP_TRUNC:
	case OP_OPEN_RDWR:
	case OP_READ:
		r = merged_open(m, a, open_flags(w->op), 0640, &fd);
		return finish_file(r < 0 ? r : fd, w, seen);
	case OP_UNLINK:
		return merged_unlink(m, a);
	case OP_MKDIR:
		return merged_mkdir(m, a, (struct merged_mode){ 0751, 0 });
	case OP_RMDIR:
		return merged_rmdir(m, a);
	case OP_RENAME:
		return merged_rename(m, a, b, 0);
	case OP_EXCHANGE:
		return merged_rename(m, a, b, RENAME_EXCHANGE);
	case OP_NOREPLACE:
		return merged_rename(m, a, b, RENAME_NOREPLACE);
	case OP_LINK:
		return merged_link(m, a, b);
	case OP_SYMLINK:
		return merged_symlink(m, w->b, a);
	case OP_MKFIFO:
		return merged_mknod(
			m, a, (struct merged_mode){ S_IFIFO | 0600, 0 }, 0);
	case OP_CHMOD:
	case OP_CHOWN:
	case OP_UTIME:
	case OP_SETXATTR:
		return change_mine(m, w, a);
	case OP_LIST:
		return list_mine(m, a, seen);
	case OPS:
		break;
	}
	return -ENOSYS;
}

static void tell(const struct what *w, unsigned int first, int step)
{
	print_error("seed %u step %d: op %d '%s' '%s' %u\n", first, step, w->op,
		    w->a, w->b, w->n);
}

/* From the first line that differs. */
static void tell_difference(unsigned int first, const char *x, const char *y)
{
	size_t n = 0;

	for (size_t i = 0; x[i] && x[i] == y[i]; i++)
		if (x[i] == '\n')
			n = i + 1;
	print_error("seed %u\n- %.200s\n", first, x + n);
	print_error("+ %.200s\n", y + n);
}

static void compare(const char *a, const char *b, bool is_upper,
		    unsigned int first)
{
	char *x = shot_of(a, is_upper), *y = shot_of(b, is_upper);

	if (strcmp(x, y) != 0)
		tell_difference(first, x, y);
	assert_true(strcmp(x, y) == 0);
	free(x);
	free(y);
}

static void run_seed(unsigned int first, int root, bool has_links)
{
	struct merged *m = open_mine();

	seed = first;
	for (int i = 0; i < 120; i++) {
		char seen[256] = "", mine[256] = "";
		struct what w = random_call();
		char path[PATH_MAX];
		int r, s;

		if (w.op == OP_LINK && !has_links)
			continue;
		/* Out of the directory. */
		if (resolve(m, w.a, follows(w.op), path) == -EXDEV ||
		    resolve(m, w.b, false, path) == -EXDEV)
			continue;
		r = on_kernel(root, &w, seen);
		/* It renames no directories: there is another test of that. */
		if (r == -EXDEV)
			continue;
		s = on_mine(m, &w, mine);
		if (r != s || strcmp(seen, mine) != 0)
			tell(&w, first, i);
		assert_int_equal(s, r);
		assert_string_equal(mine, seen);
	}
	merged_free(m);
}

static void it_does_as_the_overlay_of_the_kernel(void **state)
{
	if (geteuid() != 0)
		skip();
	for (unsigned int s = 1; s <= 40; s++) {
		int root;

		setup();
		root = mount_view("kernel");
		run_seed(s, root, true);
		(void)close(root);
		assert_int_equal(chdir("/"), 0);
		compare("kernel/upper", "mine/upper", true, s);
		root = mount_view("mine");
		(void)close(root);
		compare("kernel/view", "mine/view", false, s);
		unmount_view("mine");
		unmount_view("kernel");
		teardown();
	}
}

/* A plain directory: there all renames succeed. */
static void directories_are_renamed_as_in_a_plain_one(void **state)
{
	if (geteuid() != 0)
		skip();
	for (unsigned int s = 1001; s <= 1040; s++) {
		int root;

		setup();
		/* The kernel's overlay breaks hard links, and so do we. */
		sh("rm lower/c/c && touch -d @1000000000 lower/c &&"
		   " cp -a lower plain");
		root = open_top("plain");
		run_seed(s, root, true);
		(void)close(root);
		assert_int_equal(chdir("/"), 0);
		root = mount_view("mine");
		(void)close(root);
		compare("plain", "mine/view", false, s);
		unmount_view("mine");
		teardown();
	}
}

enum { STAGES = 4 };

static void stages_are_layers_as_in_the_overlay_of_the_kernel(void **state)
{
	if (geteuid() != 0)
		skip();
	for (unsigned int s = 2001; s <= 2010; s++) {
		setup();
		for (layers = 0; layers < STAGES; layers++) {
			int root = mount_view("kernel");

			run_seed(s * STAGES + (unsigned int)layers, root, true);
			(void)close(root);
			assert_int_equal(chdir("/"), 0);
			root = mount_view("mine");
			(void)close(root);
			compare("kernel/view", "mine/view", false, s);
			unmount_view("mine");
			unmount_view("kernel");
			push("kernel");
			push("mine");
		}
		teardown();
	}
}

/* Copying up breaks hard links, of an earlier stage's, too. */
static void stages_rename_directories_as_in_a_plain_one(void **state)
{
	if (geteuid() != 0)
		skip();
	for (unsigned int s = 3001; s <= 3010; s++) {
		setup();
		sh("rm lower/c/c && touch -d @1000000000 lower/c &&"
		   " cp -a lower plain");
		for (layers = 0; layers < STAGES; layers++) {
			int root = open_top("plain");

			run_seed(s * STAGES + (unsigned int)layers, root,
				 false);
			(void)close(root);
			assert_int_equal(chdir("/"), 0);
			root = mount_view("mine");
			(void)close(root);
			compare("plain", "mine/view", false, s);
			unmount_view("mine");
			push("mine");
		}
		teardown();
	}
}

static int leased_fd;
static char leased_gone[128];

/* What another thread of the sandbox does while contents are copied. */
static void remove_meanwhile(int sig)
{
	(void)unlink(leased_gone);
	(void)mknod(leased_gone, S_IFCHR, 0);
	(void)fcntl(leased_fd, F_SETLEASE, F_UNLCK);
}

static void a_copy_that_goes_meanwhile_gets_no_other_name(void **state)
{
	const struct sigaction act = { .sa_handler = remove_meanwhile,
				       .sa_flags = SA_RESTART };
	struct merged *m;

	if (geteuid() != 0)
		skip();
	setup();
	sh("mkdir -p lower/n/s/t && echo 1 > lower/n/a &&"
	   " ln lower/n/a lower/n/s/t/b && echo 2 > lower/n/s/long");
	(void)snprintf(leased_gone, sizeof(leased_gone), "%s/mine/upper/n/a",
		       top);
	leased_fd = open_top_for("lower/n/s/long", O_WRONLY);
	assert_int_equal(sigaction(SIGIO, &act, NULL), 0);
	assert_int_equal(fcntl(leased_fd, F_SETLEASE, F_WRLCK), 0);
	m = open_mine();
	assert_int_equal(merged_rename(m, "n", "o", 0), 0);
	merged_free(m);
	(void)close(leased_fd);
	sh("test ! -e mine/upper/o/a && test $(cat mine/upper/o/s/t/b) = 1");
	teardown();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_does_as_the_overlay_of_the_kernel),
		cmocka_unit_test(directories_are_renamed_as_in_a_plain_one),
		cmocka_unit_test(
			stages_are_layers_as_in_the_overlay_of_the_kernel),
		cmocka_unit_test(stages_rename_directories_as_in_a_plain_one),
		cmocka_unit_test(a_copy_that_goes_meanwhile_gets_no_other_name),
	};

	(void)umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
