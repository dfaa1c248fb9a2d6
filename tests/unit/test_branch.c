/* The life of a branch on disk, as root. test_branch_user.c: as anybody. */
#include "unit.h"

#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>

#include "branch/branch.h"
#include "branch/internal.h"

static struct error err;

/* A store and a lower with one file "a" in a new directory. */
struct world {
	char dir[256];
	int dir_fd;
	struct store *st;
	struct branch *b;
	int mount_fd;
};

static void put(int dir_fd, const char *path, const char *text)
{
	int fd = openat(dir_fd, path, O_CREAT | O_WRONLY | O_APPEND, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

static bool exists(int dir_fd, const char *path)
{
	struct stat st;

	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void open_world_store(struct world *w)
{
	char path[300];

	(void)snprintf(path, sizeof(path), "%s/store", w->dir);
	assert_int_equal(store_open(path, NULL, &w->st, &err), 0);
}

static void setup(struct world *w)
{
	err = (struct error)ERROR_INIT;
	*w = (struct world){ .mount_fd = -1 };
	(void)setenv("TMPDIR", "/var/tmp", 1);
	w->dir_fd = unit_tmpdir(w->dir);
	assert_int_equal(mkdirat(w->dir_fd, "lower", 0755), 0);
	put(w->dir_fd, "lower/a", "lower\n");
	open_world_store(w);
}

static void teardown(struct world *w)
{
	char cmd[300];

	if (w->mount_fd >= 0)
		(void)close(w->mount_fd);
	branch_close(w->b);
	store_close(w->st);
	(void)close(w->dir_fd);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s' 2>/dev/null", w->dir);
	/* A remover may be at work in it. */
	for (int i = 0; i < 100 && exists(AT_FDCWD, w->dir); i++) {
		if (system(cmd) != 0)
			(void)usleep(20 * 1000);
	}
	assert_false(exists(AT_FDCWD, w->dir));
}

static int create(struct world *w, const char *name, struct branch **ret)
{
	char lower[300];
	struct branch_options o = {
		.name = name,
		.lower = lower,
		.on_exit = DISPOSE_DEFER,
		.on_error = DISPOSE_KEEP,
	};

	(void)snprintf(lower, sizeof(lower), "%s/lower", w->dir);
	return branch_create(w->st, &o, ret, &err);
}

static void create_web(struct world *w)
{
	assert_int_equal(create(w, "web", &w->b), 0);
}

static void mount_web(struct world *w)
{
	assert_int_equal(branch_overlay(w->b, &w->mount_fd, &err), 0);
}

static void unmount(struct world *w)
{
	assert_int_equal(close(w->mount_fd), 0);
	w->mount_fd = -1;
}

/* A process id that is certainly nobody's: ours with another start. */
static const struct proc_id dead = { .pid = 1, .start_time = UINT64_MAX };

static void run(struct world *w, const char *const *made, size_t n)
{
	assert_int_equal(branch_set_running(w->b, made, n, &dead, &err), 0);
}

static enum branch_state state_of(struct branch *b)
{
	enum branch_state s = BRANCH_OPEN;

	assert_int_equal(branch_get_state(b, &s, &err), 0);
	return s;
}

static struct branch_settled settle(struct world *w)
{
	const struct exit_status zero = { .kind = EXIT_CODE };
	struct branch_settled s = { .gone = false };
	int r = branch_settle(w->b, &zero, true, &s, &err);

	if (r < 0)
		print_error("%s\n", err.msg);
	assert_int_equal(r, 0);
	return s;
}

static void need_root(void)
{
	if (geteuid() != 0) {
		print_message("needs root\n");
		skip();
	}
}

static void a_new_branch_has_the_face_of_its_lower(void **state)
{
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
	struct stat st;
	struct world w;
	char value[8];
	char *expect;

	need_root();
	setup(&w);
	assert_int_equal(fchmodat(w.dir_fd, "lower", 02751, 0), 0);
	assert_int_equal(fchownat(w.dir_fd, "lower", 12, 34, 0), 0);
	assert_int_equal(fchmodat(w.dir_fd, "lower", 02751, 0), 0);
	assert_true(asprintf(&expect, "%s/lower", w.dir) > 0);
	assert_int_equal(setxattr(expect, "user.k", "v", 1, 0), 0);
	assert_int_equal(utimensat(w.dir_fd, "lower", old, 0), 0);
	create_web(&w);
	assert_string_equal(branch_lower(w.b), expect);
	assert_string_equal(branch_name(w.b), "web");
	assert_int_equal(lstat(branch_upper(w.b), &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 02751);
	assert_int_equal(st.st_uid, 12);
	assert_int_equal(st.st_gid, 34);
	assert_int_equal(st.st_mtim.tv_sec, 2000);
	assert_int_equal(getxattr(branch_upper(w.b), "user.k", value, 8), 1);
	assert_int_equal(lstat(branch_dir(w.b), &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	free(expect);
	teardown(&w);
}

static void a_name_is_claimed_once(void **state)
{
	struct branch *other = NULL;
	struct world w;

	setup(&w);
	create_web(&w);
	assert_int_equal(create(&w, "web", &other), -EEXIST);
	assert_int_equal(err.kind, ERR_EXISTS);
	assert_non_null(strstr(err.hint, "commit or abort"));
	assert_null(other);
	assert_int_equal(create(&w, "../web", &other), -EINVAL);
	assert_int_equal(err.kind, ERR_NAME);
	teardown(&w);
}

static void a_hundred_claims_race_and_one_wins(void **state)
{
	int won = 0, status;
	struct world w;

	setup(&w);
	assert_int_equal(store_make(w.st, &err), 0);
	for (int i = 0; i < 100; i++) {
		if (fork() == 0) {
			struct branch *b = NULL;
			int r = create(&w, "web", &b);

			_exit(r == 0 ? 1 : r == -EEXIST ? 0 : 2);
		}
	}
	while (wait(&status) > 0) {
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
		won += WEXITSTATUS(status);
	}
	assert_int_equal(won, 1);
	teardown(&w);
}

static void what_was_written_is_pending(void **state)
{
	struct branch_settled s;
	struct branch_info info;
	struct world w;
	char **names;
	size_t n;

	need_root();
	setup(&w);
	create_web(&w);
	mount_web(&w);
	run(&w, NULL, 0);
	put(w.mount_fd, "a", "more\n");
	put(w.mount_fd, "b", "new\n");
	assert_true(branch_has_marker(w.b));
	unmount(&w);
	s = settle(&w);
	assert_false(s.gone);
	assert_int_equal(s.n_changes, 2);
	assert_false(branch_has_marker(w.b));
	/* Again, and from another process: the same answer. */
	s = settle(&w);
	assert_int_equal(s.n_changes, 2);
	branch_close(w.b);
	w.b = NULL;
	assert_int_equal(branch_find(w.st, "web", &w.b, &err), 0);
	assert_int_equal(state_of(w.b), BRANCH_PENDING);
	assert_int_equal(branch_get_info(w.b, &info, &err), 0);
	assert_int_equal(info.status.kind, EXIT_CODE);
	assert_int_equal(info.on_error, DISPOSE_KEEP);
	assert_false(info.staged);
	branch_info_done(&info);
	assert_int_equal(store_list(w.st, &names, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_string_equal(names[0], "web");
	store_names_free(names, n);
	teardown(&w);
}

static void layers_can_be_named_by_strings(void **state)
{
	struct world w;

	need_root();
	setup(&w);
	create_web(&w);
	assert_int_equal(overlay_mount(w.b, true, &w.mount_fd, &err), 0);
	assert_true(exists(w.mount_fd, "a"));
	teardown(&w);
}

static void awkward_paths_are_mounted(void **state)
{
	static const char *const names[] = { "co:lon", "com,ma", "back\\slash",
					     "new\nline", "\xff\xfe" };
	struct world w;

	need_root();
	setup(&w);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[400], store[400];
		struct branch_options o = { .name = "odd", .lower = path };

		(void)snprintf(path, sizeof(path), "%s/%s", w.dir, names[i]);
		(void)snprintf(store, sizeof(store), "%s/S%s", w.dir, names[i]);
		assert_int_equal(mkdir(path, 0755), 0);
		store_close(w.st);
		assert_int_equal(store_open(store, NULL, &w.st, &err), 0);
		for (int by_name = 0; by_name < 2; by_name++) {
			int fd = -1;

			assert_int_equal(branch_create(w.st, &o, &w.b, &err),
					 0);
			assert_int_equal(overlay_mount(w.b, by_name, &fd, &err),
					 0);
			put(fd, "x", "y");
			(void)close(fd);
			branch_close(w.b);
			w.b = NULL;
			assert_int_equal(branch_find(w.st, "odd", &w.b, &err),
					 0);
			assert_string_equal(branch_lower(w.b), path);
			assert_int_equal(branch_lock(w.b, 0, &err), 0);
			assert_int_equal(branch_remove(w.b, &err), 0);
			branch_close(w.b);
			w.b = NULL;
		}
	}
	teardown(&w);
}

static void an_empty_branch_disappears(void **state)
{
	static const char *const made[] = { "dev/console", "/proc/", "etc/x" };
	struct branch *b = NULL;
	struct world w;

	need_root();
	setup(&w);
	create_web(&w);
	mount_web(&w);
	assert_int_equal(mkdirat(w.mount_fd, "dev", 0755), 0);
	assert_int_equal(mkdirat(w.mount_fd, "proc", 0555), 0);
	put(w.mount_fd, "dev/console", "");
	run(&w, made, ARRAY_LEN(made));
	unmount(&w);
	assert_true(settle(&w).gone);
	assert_false(exists(w.dir_fd, "store/branches/web"));
	assert_int_equal(branch_find(w.st, "web", &b, &err), -ENOENT);
	assert_int_equal(err.kind, ERR_NOT_FOUND);
	/* Somebody who still holds it learns that. */
	assert_true(settle(&w).gone);
	teardown(&w);
}

static void what_the_runtime_made_counts_once_it_is_changed(void **state)
{
	static const char *const made[] = { "etc/resolv.conf" };
	struct world w;

	need_root();
	setup(&w);
	create_web(&w);
	mount_web(&w);
	assert_int_equal(mkdirat(w.mount_fd, "etc", 0755), 0);
	put(w.mount_fd, "etc/resolv.conf", "nameserver\n");
	run(&w, made, 1);
	put(w.mount_fd, "etc/resolv.conf", "changed\n");
	unmount(&w);
	/* As diff shows it: the file, and the directory that it needs. */
	assert_int_equal(settle(&w).n_changes, 2);
	teardown(&w);
}

static void a_file_that_came_and_went_leaves_nothing(void **state)
{
	struct world w;

	need_root();
	setup(&w);
	assert_int_equal(mkdirat(w.dir_fd, "lower/tmp", 01777), 0);
	create_web(&w);
	mount_web(&w);
	run(&w, NULL, 0);
	put(w.mount_fd, "tmp/x", "x");
	assert_int_equal(unlinkat(w.mount_fd, "tmp/x", 0), 0);
	unmount(&w);
	assert_true(settle(&w).gone);
	teardown(&w);
}

static void a_mode_alone_is_a_change(void **state)
{
	struct world w;

	need_root();
	setup(&w);
	assert_int_equal(mkdirat(w.dir_fd, "lower/d", 0755), 0);
	create_web(&w);
	mount_web(&w);
	run(&w, NULL, 0);
	assert_int_equal(fchmodat(w.mount_fd, "d", 0700, 0), 0);
	unmount(&w);
	assert_int_equal(settle(&w).n_changes, 1);
	teardown(&w);
}

static void a_branch_lives_as_long_as_its_overlay(void **state)
{
	const struct exit_status unknown = { .kind = EXIT_UNKNOWN };
	struct branch_settled s;
	struct world w;
	int file;

	need_root();
	setup(&w);
	create_web(&w);
	mount_web(&w);
	assert_int_equal(overlay_probe(w.b, &err), 1);
	run(&w, NULL, 0);
	assert_int_equal(branch_is_alive(w.b, &err), 1);
	assert_int_equal(state_of(w.b), BRANCH_OPEN);
	assert_int_equal(branch_settle(w.b, &unknown, false, &s, &err), -EBUSY);
	assert_int_equal(err.kind, ERR_STATE);
	/* As after umount -l: no mount, but a file is open. */
	file = openat(w.mount_fd, "b", O_CREAT | O_RDWR, 0644);
	unmount(&w);
	assert_int_equal(branch_is_alive(w.b, &err), 1);
	(void)close(file);
	assert_int_equal(branch_is_alive(w.b, &err), 0);
	assert_int_equal(state_of(w.b), BRANCH_INTERRUPTED);
	assert_int_equal(branch_settle(w.b, &unknown, false, &s, &err), 0);
	assert_int_equal(state_of(w.b), BRANCH_PENDING);
	teardown(&w);
}

static void a_branch_lives_as_long_as_init(void **state)
{
	struct proc_id self;
	struct world w;

	setup(&w);
	create_web(&w);
	assert_int_equal(proc_id_of(getpid(), &self), 0);
	assert_int_equal(branch_set_init(w.b, &self, &err), 0);
	assert_int_equal(branch_is_alive(w.b, &err), 1);
	teardown(&w);
}

static void a_branch_that_is_being_made_is_alive(void **state)
{
	struct branch *other = NULL;
	struct world w;

	setup(&w);
	create_web(&w);
	assert_int_equal(branch_find(w.st, "web", &other, &err), 0);
	assert_int_equal(branch_is_alive(other, &err), 1);
	assert_int_equal(branch_lock(other, 20, &err), -EWOULDBLOCK);
	assert_int_equal(err.kind, ERR_LOCKED);
	branch_close(other);
	teardown(&w);
}

static void a_reboot_before_settling_tears(void **state)
{
	const struct exit_status unknown = { .kind = EXIT_UNKNOWN };
	struct branch_settled s;
	struct world w;

	need_root();
	setup(&w);
	create_web(&w);
	mount_web(&w);
	put(w.mount_fd, "b", "new\n");
	unmount(&w);
	run(&w, NULL, 0);
	w.b->meta.boot_id[0] ^= 1;
	assert_int_equal(branch_save(w.b, false, &err), 0);
	assert_int_equal(state_of(w.b), BRANCH_TORN);
	assert_int_equal(branch_settle(w.b, &unknown, false, &s, &err), -EIO);
	assert_int_equal(err.kind, ERR_TORN);
	assert_true(branch_has_marker(w.b));
	teardown(&w);
}

/* Settled for a commit that did not happen: the data were not synced. */
static void a_reboot_before_the_disposition_tears(void **state)
{
	struct world w;

	need_root();
	setup(&w);
	create_web(&w);
	mount_web(&w);
	put(w.mount_fd, "b", "new\n");
	unmount(&w);
	w.b->meta.on_exit = DISPOSE_COMMIT;
	run(&w, NULL, 0);
	assert_int_equal(settle(&w).n_changes, 1);
	assert_int_equal(state_of(w.b), BRANCH_PENDING);
	assert_true(branch_has_marker(w.b));
	w.b->meta.boot_id[0] ^= 1;
	assert_int_equal(branch_save(w.b, false, &err), 0);
	assert_int_equal(state_of(w.b), BRANCH_TORN);
	w.b->meta.boot_id[0] ^= 1;
	assert_int_equal(branch_make_durable(w.b, &err), 0);
	w.b->meta.boot_id[0] ^= 1;
	assert_int_equal(state_of(w.b), BRANCH_PENDING);
	teardown(&w);
}

static void settling_goes_on_where_it_was_cut_off(void **state)
{
	struct world w;

	need_root();
	setup(&w);
	create_web(&w);
	mount_web(&w);
	put(w.mount_fd, "b", "new\n");
	unmount(&w);
	run(&w, NULL, 0);
	assert_int_equal(branch_remove_marker(w.b), 0);
	assert_int_equal(settle(&w).n_changes, 1);
	assert_int_equal(state_of(w.b), BRANCH_PENDING);
	teardown(&w);
}

static void many_objects_settle_too(void **state)
{
	struct world w;

	need_root();
	setup(&w);
	create_web(&w);
	mount_web(&w);
	run(&w, NULL, 0);
	for (int i = 0; i < 400; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "f%d", i);
		put(w.mount_fd, name, "x");
	}
	unmount(&w);
	assert_int_equal(settle(&w).n_changes, 400);
	assert_false(branch_has_marker(w.b));
	teardown(&w);
}

static void special_files_are_not_opened(void **state)
{
	struct world w;

	need_root();
	setup(&w);
	create_web(&w);
	mount_web(&w);
	run(&w, NULL, 0);
	assert_int_equal(mkfifoat(w.mount_fd, "fifo", 0600), 0);
	assert_int_equal(symlinkat("/etc/passwd", w.mount_fd, "link"), 0);
	assert_int_equal(mknodat(w.mount_fd, "null", S_IFCHR | 0600, 0x103), 0);
	assert_int_equal(unlinkat(w.mount_fd, "a", 0), 0);
	unmount(&w);
	assert_int_equal(settle(&w).n_changes, 4);
	teardown(&w);
}

static void wait_gone(int dir_fd, const char *path)
{
	const struct timespec nap = { .tv_nsec = 10 * 1000 * 1000 };

	for (int i = 0; i < 1000 && exists(dir_fd, path); i++)
		(void)nanosleep(&nap, NULL);
	assert_false(exists(dir_fd, path));
}

/* The only entry of trash/, or "". */
static void trash_entry(struct world *w, char ret[300])
{
	int fd = openat(w->dir_fd, "store/trash", O_RDONLY | O_DIRECTORY);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;

	ret[0] = '\0';
	while (dir && (d = readdir(dir))) {
		if (d->d_name[0] != '.')
			(void)snprintf(ret, 300, "store/trash/%s", d->d_name);
	}
}

static void make_deep(int dir_fd, int depth)
{
	int fd = dup(dir_fd);

	for (int i = 0; i < depth; i++) {
		int next;

		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		put(fd, "f", "x");
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
		assert_int_equal(fchmod(fd, 0), 0);
		(void)close(fd);
		fd = next;
	}
	(void)close(fd);
}

static void removal_is_not_waited_for_and_holds_nothing(void **state)
{
	struct pollfd p = { .events = POLLIN };
	char entry[300];
	int fds[2], upper;
	struct world w;

	setup(&w);
	create_web(&w);
	upper = open(branch_upper(w.b), O_RDONLY | O_DIRECTORY);
	assert_int_equal(mkdirat(upper, "deep", 0755), 0);
	(void)close(upper);
	upper = openat(w.dir_fd, "store/branches/web/upper/deep", O_RDONLY);
	make_deep(upper, 500);
	(void)close(upper);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(branch_remove(w.b, &err), 0);
	assert_false(exists(w.dir_fd, "store/branches/web"));
	(void)close(fds[1]);
	p.fd = fds[0];
	assert_int_equal(poll(&p, 1, 2000), 1);
	assert_true(p.revents & POLLHUP);
	(void)close(fds[0]);
	trash_entry(&w, entry);
	if (entry[0])
		wait_gone(w.dir_fd, entry);
	teardown(&w);
}

static void removal_is_resumed_by_the_next_verb(void **state)
{
	struct world w;
	char **names;
	size_t n;
	int fd, held;

	setup(&w);
	assert_int_equal(store_make(w.st, &err), 0);
	assert_int_equal(mkdirat(w.dir_fd, "store/trash/~1", 0700), 0);
	assert_int_equal(mkdirat(w.dir_fd, "store/trash/~2", 0700), 0);
	assert_int_equal(mkdirat(w.dir_fd, "store/trash/~1/x", 0700), 0);
	fd = openat(w.dir_fd, "store/trash/~1/x", O_RDONLY);
	make_deep(fd, 20);
	(void)close(fd);
	held = openat(w.dir_fd, "store/trash/~2", O_RDONLY);
	assert_int_equal(flock(held, LOCK_EX), 0);
	assert_int_equal(store_list(w.st, &names, &n, &err), 0);
	store_names_free(names, n);
	wait_gone(w.dir_fd, "store/trash/~1");
	assert_true(exists(w.dir_fd, "store/trash/~2"));
	(void)close(held);
	store_close(w.st);
	open_world_store(&w);
	wait_gone(w.dir_fd, "store/trash/~2");
	teardown(&w);
}

static void a_part_can_be_discarded(void **state)
{
	char entry[300];
	struct world w;
	int upper;

	setup(&w);
	create_web(&w);
	upper = open(branch_upper(w.b), O_RDONLY | O_DIRECTORY);
	assert_int_equal(mkdirat(upper, "tree", 0755), 0);
	put(upper, "tree/f", "x");
	put(upper, "keep", "x");
	assert_int_equal(store_discard(w.b, upper, "tree", &err), 0);
	assert_false(exists(upper, "tree"));
	assert_true(exists(upper, "keep"));
	(void)close(upper);
	trash_entry(&w, entry);
	if (entry[0])
		wait_gone(w.dir_fd, entry);
	teardown(&w);
}

static void a_deep_tree_settles_too(void **state)
{
	struct world w;
	int fd;

	need_root();
	setup(&w);
	create_web(&w);
	mount_web(&w);
	run(&w, NULL, 0);
	assert_int_equal(mkdirat(w.mount_fd, "deep", 0755), 0);
	fd = openat(w.mount_fd, "deep", O_RDONLY | O_DIRECTORY);
	make_deep(fd, 200);
	(void)close(fd);
	unmount(&w);
	assert_false(settle(&w).gone);
	assert_int_equal(state_of(w.b), BRANCH_PENDING);
	teardown(&w);
}

static enum branch_outcome dispose(struct world *w, enum disposition d)
{
	enum branch_outcome o = OUTCOME_GONE;

	setup(w);
	create_web(w);
	w->b->meta.on_exit = d;
	mount_web(w);
	run(w, NULL, 0);
	put(w->mount_fd, "b", "new\n");
	unmount(w);
	assert_int_equal(settle(w).n_changes, 1);
	assert_int_equal(branch_dispose(w->b, &o, &err), 0);
	return o;
}

static void a_disposition_is_carried_out(void **state)
{
	enum branch_outcome o;
	struct world w;

	need_root();
	assert_int_equal(dispose(&w, DISPOSE_COMMIT), OUTCOME_COMMITTED);
	assert_true(exists(w.dir_fd, "lower/b"));
	assert_false(exists(w.dir_fd, "store/branches/web"));
	assert_int_equal(branch_dispose(w.b, &o, &err), 0);
	assert_int_equal(o, OUTCOME_GONE);
	teardown(&w);
	assert_int_equal(dispose(&w, DISPOSE_ABORT), OUTCOME_ABORTED);
	assert_false(exists(w.dir_fd, "lower/b"));
	assert_false(exists(w.dir_fd, "store/branches/web"));
	teardown(&w);
	assert_int_equal(dispose(&w, DISPOSE_KEEP), OUTCOME_PENDING);
	assert_int_equal(state_of(w.b), BRANCH_PENDING);
	teardown(&w);
}

/* Two handles, as of two processes: the trash is out of reach for both. */
static void a_branch_that_was_removed_is_gone_for_others(void **state)
{
	struct branch *other = NULL;
	struct world w;
	char name[32];

	setup(&w);
	create_web(&w);
	run(&w, NULL, 0);
	assert_int_equal(branch_find(w.st, "web", &other, &err), 0);
	assert_int_equal(branch_lock(w.b, 0, &err), 0);
	/* Enough to keep the remover busy. */
	for (int i = 0; i < 500; i++) {
		(void)snprintf(name, sizeof(name), "f%d", i);
		put(w.b->upper_fd, name, "x");
	}
	assert_int_equal(branch_remove(w.b, &err), 0);
	assert_int_equal(branch_lock(other, 0, &err), -ENOENT);
	assert_int_equal(err.kind, ERR_NOT_FOUND);
	branch_close(other);
	teardown(&w);
}

static void an_unknown_status_disposes_of_nothing(void **state)
{
	const struct exit_status unknown = { .kind = EXIT_UNKNOWN };
	enum branch_outcome o = OUTCOME_GONE;
	struct branch_settled s;
	struct world w;

	need_root();
	setup(&w);
	create_web(&w);
	w.b->meta.on_exit = w.b->meta.on_error = DISPOSE_COMMIT;
	mount_web(&w);
	run(&w, NULL, 0);
	put(w.mount_fd, "b", "new\n");
	unmount(&w);
	assert_int_equal(branch_settle(w.b, &unknown, true, &s, &err), 0);
	assert_false(branch_has_marker(w.b));
	assert_int_equal(branch_dispose(w.b, &o, &err), 0);
	assert_int_equal(o, OUTCOME_PENDING);
	assert_false(exists(w.dir_fd, "lower/b"));
	teardown(&w);
}

static void a_commit_that_conflicts_leaves_it_pending(void **state)
{
	enum branch_outcome o = OUTCOME_GONE;
	struct world w;

	need_root();
	setup(&w);
	create_web(&w);
	w.b->meta.on_exit = DISPOSE_COMMIT;
	mount_web(&w);
	run(&w, NULL, 0);
	put(w.mount_fd, "a", "ours\n");
	unmount(&w);
	put(w.dir_fd, "lower/a", "theirs\n");
	assert_int_equal(settle(&w).n_changes, 1);
	assert_true(branch_has_marker(w.b));
	assert_true(branch_dispose(w.b, &o, &err) < 0);
	assert_int_equal(err.kind, ERR_CONFLICT);
	assert_int_equal(o, OUTCOME_PENDING);
	assert_int_equal(state_of(w.b), BRANCH_PENDING);
	/* Now that it waits it is on disk. */
	assert_false(branch_has_marker(w.b));
	teardown(&w);
}

static void a_half_made_branch_is_cleared_away(void **state)
{
	struct timespec long_ago = { .tv_sec = 2, .tv_nsec = 100000000 };
	struct world w;
	char **names;
	size_t n;

	setup(&w);
	assert_int_equal(store_make(w.st, &err), 0);
	assert_int_equal(mkdirat(w.dir_fd, "store/branches/web", 0700), 0);
	put(w.dir_fd, "store/branches/stray", "a file is no branch");
	assert_int_equal(create(&w, "web", &w.b), -EEXIST);
	long_ago.tv_sec++;
	(void)nanosleep(&long_ago, NULL);
	assert_int_equal(store_list(w.st, &names, &n, &err), 0);
	assert_int_equal(n, 0);
	store_names_free(names, n);
	create_web(&w);
	teardown(&w);
}

static void damaged_meta_is_refused_whole(void **state)
{
	static const char *const bad[] = {
		"", "{", "[]", "null", "{\"version\":1}", "{\"version\":2}",
	};
	auto_(buf) struct buf good = BUF_INIT;
	auto_(meta) struct branch_meta m = { 0 };
	struct branch *b = NULL;
	struct world w;

	setup(&w);
	create_web(&w);
	assert_int_equal(meta_format(&w.b->meta, &good), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_true(meta_parse(bad[i], strlen(bad[i]), "m", &m, &err) <
			    0);
		assert_int_equal(err.kind, ERR_TORN);
	}
	/* The last two bytes are the brace and the newline. */
	for (size_t i = 0; i + 2 < good.len; i++)
		assert_true(meta_parse(good.data, i, "m", &m, &err) < 0);
	assert_int_equal(meta_parse(good.data, good.len, "m", &m, &err), 0);
	put(w.dir_fd, "store/branches/web/meta.json", "}");
	assert_true(branch_find(w.st, "web", &b, &err) < 0);
	assert_int_equal(err.kind, ERR_TORN);
	assert_non_null(strstr(err.msg, "web"));
	teardown(&w);
}

static void meta_survives_a_round_trip(void **state)
{
	static char one[] = "\xff\xfe", two[] = "";
	static char *argv[] = { one, two, NULL };
	struct branch_record made = { .path = argv[0], .ino = UINT64_MAX };
	struct branch_meta m = {
		.version = BRANCH_META_VERSION,
		.name = (char *)"n",
		.lower = (char *)"/a\nb",
		.lower_ino = UINT64_MAX,
		.argv = argv,
		.bundle = (char *)"/\x80",
		.on_exit = DISPOSE_UNSAID,
		.on_error = DISPOSE_ABORT,
		.status = { EXIT_SIGNAL, 9 },
		.made = &made,
		.n_made = 1,
	};
	auto_(meta) struct branch_meta back = { 0 };
	auto_(buf) struct buf b = BUF_INIT;
	auto_(buf) struct buf again = BUF_INIT;

	memset(m.boot_id, 'b', BOOT_ID_LEN);
	assert_int_equal(meta_format(&m, &b), 0);
	assert_int_equal(meta_parse(b.data, b.len, "m", &back, &err), 0);
	assert_string_equal(back.lower, "/a\nb");
	assert_string_equal(back.argv[0], "\xff\xfe");
	assert_string_equal(back.argv[1], "");
	assert_true(back.made[0].ino == UINT64_MAX);
	assert_int_equal(meta_format(&back, &again), 0);
	assert_string_equal(b.data, again.data);
}

static void records_stay_sorted(void **state)
{
	static const char *const paths[] = { "b", "", "b/c", "a", "b" };
	struct branch_record *r = NULL;
	struct stat st = { .st_ino = 1 };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		st.st_ino = i + 1;
		assert_int_equal(record_put(&r, &n, paths[i], &st), 0);
	}
	assert_int_equal(n, 4);
	assert_string_equal(r[0].path, "");
	assert_string_equal(r[3].path, "b/c");
	assert_int_equal(record_find(r, n, "b")->ino, 5);
	assert_true(record_is(record_find(r, n, "b"), &st));
	st.st_ctim.tv_nsec++;
	assert_false(record_is(record_find(r, n, "b"), &st));
	assert_null(record_find(r, n, "c"));
	records_free(r, n);
}

static void links_in_the_store_are_not_followed(void **state)
{
	struct branch *b = NULL;
	struct store *st = NULL;
	struct world w;
	char path[300];

	need_root();
	setup(&w);
	create_web(&w);
	assert_int_equal(symlinkat("/etc", w.dir_fd, "store/branches/e"), 0);
	assert_true(branch_find(w.st, "e", &b, &err) < 0);
	assert_int_equal(err.kind, ERR_TORN);
	assert_int_equal(
		symlinkat("/nowhere/branches/f", w.dir_fd, "store/branches/f"),
		0);
	assert_int_equal(branch_find(w.st, "f", &b, &err), -ENOENT);
	assert_non_null(strstr(err.hint, "mounted"));
	assert_int_equal(unlinkat(w.dir_fd, "store/branches/web/meta.json", 0),
			 0);
	assert_int_equal(symlinkat("/etc/passwd", w.dir_fd,
				   "store/branches/web/meta.json"),
			 0);
	assert_true(branch_find(w.st, "web", &b, &err) < 0);
	assert_int_equal(err.kind, ERR_TORN);
	assert_int_equal(mkdirat(w.dir_fd, "other", 0700), 0);
	assert_int_equal(
		symlinkat("../store/branches", w.dir_fd, "other/branches"), 0);
	(void)snprintf(path, sizeof(path), "%s/other", w.dir);
	assert_true(store_open(path, NULL, &st, &err) < 0);
	assert_null(st);
	teardown(&w);
}

static void a_store_of_somebody_else_is_refused(void **state)
{
	struct store *st = NULL;
	struct world w;
	char path[300];

	need_root();
	setup(&w);
	assert_int_equal(mkdirat(w.dir_fd, "other", 0700), 0);
	assert_int_equal(mkdirat(w.dir_fd, "other/branches", 0777), 0);
	(void)snprintf(path, sizeof(path), "%s/other", w.dir);
	assert_int_equal(store_open(path, NULL, &st, &err), 0);
	store_close(st);
	st = NULL;
	assert_int_equal(fchownat(w.dir_fd, "other/branches", 99, 99, 0), 0);
	assert_true(store_open(path, NULL, &st, &err) < 0);
	assert_non_null(strstr(err.msg, "user 99"));
	assert_non_null(strstr(err.hint, "--storage"));
	teardown(&w);
}

static void removal_does_not_follow_what_the_payload_put(void **state)
{
	static const char *const made[] = { "dev/console" };
	struct world w;
	char victim[300];

	need_root();
	setup(&w);
	assert_int_equal(mkdirat(w.dir_fd, "victim", 0755), 0);
	put(w.dir_fd, "victim/console", "precious");
	create_web(&w);
	mount_web(&w);
	assert_int_equal(mkdirat(w.mount_fd, "dev", 0755), 0);
	put(w.mount_fd, "dev/console", "");
	run(&w, made, 1);
	assert_int_equal(unlinkat(w.mount_fd, "dev/console", 0), 0);
	assert_int_equal(unlinkat(w.mount_fd, "dev", AT_REMOVEDIR), 0);
	(void)snprintf(victim, sizeof(victim), "%s/victim", w.dir);
	assert_int_equal(symlinkat(victim, w.mount_fd, "dev"), 0);
	unmount(&w);
	assert_int_equal(branch_lock(w.b, 0, &err), 0);
	assert_int_equal(branch_remove(w.b, &err), 0);
	assert_true(exists(w.dir_fd, "victim/console"));
	assert_false(exists(w.dir_fd, "store/branches/web"));
	teardown(&w);
}

static bool is_empty_dir(int dir_fd, const char *path)
{
	int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t n = 0;

	while (dir && readdir(dir))
		n++;
	return n <= 2;
}

static void other_storage_is_linked(void **state)
{
	char storage[300], lower[300];
	struct branch_options o = {
		.name = "web",
		.lower = lower,
		.storage = storage,
	};
	struct world w;

	need_root();
	setup(&w);
	(void)snprintf(storage, sizeof(storage), "%s/elsewhere/x", w.dir);
	(void)snprintf(lower, sizeof(lower), "%s/lower", w.dir);
	assert_int_equal(branch_create(w.st, &o, &w.b, &err), 0);
	assert_true(exists(w.dir_fd, "elsewhere/x/branches/web/upper"));
	assert_true(exists(w.dir_fd, "store/branches/web"));
	mount_web(&w);
	run(&w, NULL, 0);
	put(w.mount_fd, "b", "new");
	unmount(&w);
	assert_false(settle(&w).gone);
	branch_close(w.b);
	w.b = NULL;
	assert_int_equal(create(&w, "web", &w.b), -EEXIST);
	assert_int_equal(branch_find(w.st, "web", &w.b, &err), 0);
	assert_string_equal(branch_name(w.b), "web");
	assert_int_equal(branch_lock(w.b, 0, &err), 0);
	assert_int_equal(branch_remove(w.b, &err), 0);
	assert_true(is_empty_dir(w.dir_fd, "elsewhere/x/branches"));
	assert_true(is_empty_dir(w.dir_fd, "store/branches"));
	teardown(&w);
}

/* Fds that were opened before lead to the old namespace. */
static bool leave_mounts(struct world *w)
{
	if (unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return false;
	w->dir_fd = open(w->dir, O_RDONLY | O_DIRECTORY);
	return w->dir_fd >= 0;
}

static int on_full_disk(struct world *w)
{
	char storage[300], lower[300], options[64];
	struct branch_options o = {
		.name = "web",
		.lower = lower,
		.storage = storage,
	};
	bool made = false;

	(void)snprintf(storage, sizeof(storage), "%s/small", w->dir);
	(void)snprintf(lower, sizeof(lower), "%s/lower", w->dir);
	if (!leave_mounts(w))
		return 2;
	for (int inodes = 2; inodes < 16 && !made; inodes++) {
		struct branch *b = NULL;
		int r;

		(void)snprintf(options, sizeof(options), "size=1m,nr_inodes=%d",
			       inodes);
		if (mount("t", storage, "tmpfs", 0, options) < 0)
			return 3;
		r = branch_create(w->st, &o, &b, &err);
		made = r == 0;
		if (!made && r != -ENOSPC)
			return 4;
		if (!made && !is_empty_dir(w->dir_fd, "small/branches"))
			return 5;
		if (!made && !is_empty_dir(w->dir_fd, "store/branches"))
			return 6;
		branch_close(b);
		if (umount2(storage, MNT_DETACH) < 0)
			return 7;
	}
	return made ? 0 : 8;
}

static void a_full_disk_leaves_nothing(void **state)
{
	struct world w;
	int status;

	need_root();
	setup(&w);
	assert_int_equal(mkdirat(w.dir_fd, "small", 0755), 0);
	if (fork() == 0)
		_exit(on_full_disk(&w));
	(void)wait(&status);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	teardown(&w);
}

static int beside_the_lower(struct world *w)
{
	char lower[300], mnt[300];
	struct branch_options o = { .name = "web", .lower = lower };
	struct branch *b = NULL;

	(void)snprintf(mnt, sizeof(mnt), "%s/mnt", w->dir);
	(void)snprintf(lower, sizeof(lower), "%s/mnt/lower", w->dir);
	if (!leave_mounts(w) || mount(mnt, mnt, NULL, MS_BIND, NULL) < 0 ||
	    mkdir(lower, 0755) < 0)
		return 2;
	if (branch_create(w->st, &o, &b, &err) < 0)
		return 3;
	if (b->meta.staged || !b->linked ||
	    !exists(w->dir_fd, "mnt/.sandlock-0/branches/web"))
		return 4;
	branch_discard(b);
	branch_close(b);
	/* The lower is the root of its mount: nothing is put into it. */
	if (umount2(mnt, MNT_DETACH) < 0 ||
	    mount("t", mnt, "tmpfs", 0, NULL) < 0)
		return 5;
	o.lower = mnt;
	if (branch_create(w->st, &o, &b, &err) < 0)
		return 6;
	if (!b->meta.staged || b->linked ||
	    exists(w->dir_fd, "mnt/.sandlock-0"))
		return 7;
	branch_close(b);
	return 0;
}

static void a_lower_on_another_mount_is_kept_beside(void **state)
{
	struct world w;
	int status;

	need_root();
	setup(&w);
	assert_int_equal(mkdirat(w.dir_fd, "mnt", 0755), 0);
	if (fork() == 0)
		_exit(beside_the_lower(&w));
	(void)wait(&status);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	teardown(&w);
}

static void an_overlay_cannot_hold_a_branch(void **state)
{
	char link[64];
	struct branch_options o = { .name = "web", .storage = link };
	struct branch *b = NULL;
	struct world w;

	need_root();
	setup(&w);
	assert_int_equal(create(&w, "base", &w.b), 0);
	mount_web(&w);
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", w.mount_fd);
	o.lower = branch_lower(w.b);
	assert_int_equal(branch_create(w.st, &o, &b, &err), -EOPNOTSUPP);
	assert_int_equal(err.kind, ERR_UNSUPPORTED);
	assert_non_null(strstr(err.hint, "--storage"));
	teardown(&w);
}

static void a_size_limit_is_refused_not_ignored(void **state)
{
	struct branch_options o = {
		.name = "web",
		.lower = "/",
		.quota_bytes = 1 << 20,
	};
	struct branch *b = NULL;
	struct world w;

	setup(&w);
	assert_int_equal(branch_create(w.st, &o, &b, &err), -EOPNOTSUPP);
	assert_int_equal(err.kind, ERR_UNSUPPORTED);
	assert_false(exists(w.dir_fd, "store"));
	teardown(&w);
}

static void a_discarded_branch_leaves_its_name(void **state)
{
	struct world w;

	setup(&w);
	create_web(&w);
	branch_discard(w.b);
	branch_close(w.b);
	w.b = NULL;
	assert_true(is_empty_dir(w.dir_fd, "store/branches"));
	create_web(&w);
	teardown(&w);
}

static void a_missing_lower_is_no_branch(void **state)
{
	struct branch_options o = { .name = "web", .lower = "/no/such" };
	struct branch *b = NULL;
	struct world w;

	setup(&w);
	assert_int_equal(branch_create(w.st, &o, &b, &err), -ENOENT);
	assert_int_equal(err.kind, ERR_BUNDLE);
	assert_true(is_empty_dir(w.dir_fd, "store/branches"));
	teardown(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_branch_has_the_face_of_its_lower),
		cmocka_unit_test(a_name_is_claimed_once),
		cmocka_unit_test(a_hundred_claims_race_and_one_wins),
		cmocka_unit_test(what_was_written_is_pending),
		cmocka_unit_test(layers_can_be_named_by_strings),
		cmocka_unit_test(awkward_paths_are_mounted),
		cmocka_unit_test(an_empty_branch_disappears),
		cmocka_unit_test(
			what_the_runtime_made_counts_once_it_is_changed),
		cmocka_unit_test(a_file_that_came_and_went_leaves_nothing),
		cmocka_unit_test(a_mode_alone_is_a_change),
		cmocka_unit_test(a_branch_lives_as_long_as_its_overlay),
		cmocka_unit_test(a_branch_lives_as_long_as_init),
		cmocka_unit_test(a_branch_that_is_being_made_is_alive),
		cmocka_unit_test(a_reboot_before_settling_tears),
		cmocka_unit_test(a_reboot_before_the_disposition_tears),
		cmocka_unit_test(settling_goes_on_where_it_was_cut_off),
		cmocka_unit_test(many_objects_settle_too),
		cmocka_unit_test(special_files_are_not_opened),
		cmocka_unit_test(removal_is_not_waited_for_and_holds_nothing),
		cmocka_unit_test(removal_is_resumed_by_the_next_verb),
		cmocka_unit_test(a_part_can_be_discarded),
		cmocka_unit_test(a_deep_tree_settles_too),
		cmocka_unit_test(a_disposition_is_carried_out),
		cmocka_unit_test(a_branch_that_was_removed_is_gone_for_others),
		cmocka_unit_test(an_unknown_status_disposes_of_nothing),
		cmocka_unit_test(a_commit_that_conflicts_leaves_it_pending),
		cmocka_unit_test(a_half_made_branch_is_cleared_away),
		cmocka_unit_test(damaged_meta_is_refused_whole),
		cmocka_unit_test(meta_survives_a_round_trip),
		cmocka_unit_test(records_stay_sorted),
		cmocka_unit_test(links_in_the_store_are_not_followed),
		cmocka_unit_test(a_store_of_somebody_else_is_refused),
		cmocka_unit_test(removal_does_not_follow_what_the_payload_put),
		cmocka_unit_test(other_storage_is_linked),
		cmocka_unit_test(a_full_disk_leaves_nothing),
		cmocka_unit_test(a_lower_on_another_mount_is_kept_beside),
		cmocka_unit_test(an_overlay_cannot_hold_a_branch),
		cmocka_unit_test(a_size_limit_is_refused_not_ignored),
		cmocka_unit_test(a_discarded_branch_leaves_its_name),
		cmocka_unit_test(a_missing_lower_is_no_branch),
	};

	return RUN_TESTS(tests);
}
