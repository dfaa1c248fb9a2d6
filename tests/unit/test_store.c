/* Where branches are, their meta.json, and how they go. */
#include "branch_world.h"

#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>

#include "branch/cradles.h"

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
	assert_int_equal(store_list(w.st, &names, &n, &err), 0);
	store_names_free(names, n);
	wait_gone(w.dir_fd, "store/trash/~2");
	teardown(&w);
}

static bool is_on_ext4(const struct world *w)
{
	struct statfs sfs;

	return fstatfs(w->dir_fd, &sfs) == 0 && sfs.f_type == EXT4_SUPER_MAGIC;
}

static void empty_ones_are_left_until_there_are_many(void **state)
{
	const struct exit_status ok = { .kind = EXIT_CODE };
	struct branch_settled settled;
	char entry[300];
	struct world w;

	setup(&w);
	for (int i = 1; i <= TRASH_LAZY_MAX; i++) {
		create_web(&w);
		assert_int_equal(branch_settle(w.b, &ok, true, &settled, &err),
				 0);
		assert_true(settled.gone);
		assert_false(exists(w.dir_fd, "store/branches/web"));
		branch_close(w.b);
		w.b = NULL;
		trash_entry(&w, entry);
		assert_true(entry[0] || i == TRASH_LAZY_MAX);
	}
	while (entry[0]) {
		wait_gone(w.dir_fd, entry);
		trash_entry(&w, entry);
	}
	assert_true(exists(w.dir_fd, "store/cradles") == is_on_ext4(&w));
	teardown(&w);
}

static size_t count(int dir_fd, const char *path)
{
	auto_close int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;
	size_t n = 0;

	fd = -1;
	assert_non_null(dir);
	while ((d = readdir(dir)))
		n += d->d_name[0] != '.';
	return n;
}

static void cradles_spread_branches_over_the_disk(void **state)
{
	static const char orphan[] = "store/cradles/05/~new-2147483647-1";
	struct storage s = STORAGE_INIT;
	char mine[64], path[300];
	struct world w;

	setup(&w);
	if (!is_on_ext4(&w)) {
		teardown(&w);
		skip();
	}
	(void)snprintf(path, sizeof(path), "%s/store", w.dir);
	assert_int_equal(storage_open(path, true, &s, &err), 0);
	assert_int_equal(s.n_made, 1);
	cradles_make(s.fd);
	assert_int_equal(count(w.dir_fd, "store/cradles"), CRADLES);
	for (unsigned int i = 0; i < 2 * CRADLES; i++) {
		(void)snprintf(mine, sizeof(mine), "~new-%u", i);
		assert_int_equal(cradles_mkdir(s.fd, i, s.branches_fd, mine),
				 0);
		assert_int_equal(unlinkat(s.branches_fd, mine, AT_REMOVEDIR),
				 0);
	}
	create_web(&w);
	(void)snprintf(mine, sizeof(mine), "store/cradles/7f/~new-%d-1",
		       getpid());
	assert_int_equal(mkdirat(w.dir_fd, mine, 0700), 0);
	assert_int_equal(mkdirat(w.dir_fd, orphan, 0700), 0);
	cradles_make(s.fd);
	assert_false(exists(w.dir_fd, orphan));
	assert_true(exists(w.dir_fd, mine));
	assert_int_equal(unlinkat(w.dir_fd, mine, AT_REMOVEDIR), 0);
	storage_drop(&s, s.n_made);
	assert_int_equal(count(w.dir_fd, "store/cradles"), CRADLES);
	assert_int_equal(branch_remove(w.b, &err), 0);
	trash_entry(&w, path);
	if (path[0])
		wait_gone(w.dir_fd, path);
	storage_drop(&s, s.n_made);
	assert_false(exists(w.dir_fd, "store"));
	storage_done(&s);
	teardown(&w);
}

static void set_flags(int dir_fd, const char *path, int more)
{
	auto_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	int flags;

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, FS_IOC_GETFLAGS, &flags), 0);
	flags |= more;
	assert_int_equal(ioctl(fd, FS_IOC_SETFLAGS, &flags), 0);
}

static void immutable_objects_are_removed_too(void **state)
{
	char entry[300];
	struct world w;

	need_root();
	setup(&w);
	create_web(&w);
	assert_int_equal(mkdirat(w.b->upper_fd, "d", 0755), 0);
	assert_int_equal(mkdirat(w.b->upper_fd, "d/e", 0755), 0);
	put(w.b->upper_fd, "d/f", "x");
	put(w.b->upper_fd, "d/e/g", "x");
	set_flags(w.b->upper_fd, "d/f", FS_IMMUTABLE_FL);
	set_flags(w.b->upper_fd, "d/e/g", FS_APPEND_FL);
	set_flags(w.b->upper_fd, "d/e", FS_APPEND_FL);
	set_flags(w.b->upper_fd, "d", FS_IMMUTABLE_FL);
	assert_int_equal(branch_remove(w.b, &err), 0);
	trash_entry(&w, entry);
	if (entry[0])
		wait_gone(w.dir_fd, entry);
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

static void the_rest_of_a_branch_is_cleared_away(void **state)
{
	struct world w;
	char **names, mine[64], entry[300];
	size_t n;

	setup(&w);
	assert_int_equal(store_make(w.st, &err), 0);
	assert_int_equal(mkdirat(w.dir_fd, "store/branches/web", 0700), 0);
	put(w.dir_fd, "store/branches/web/lock", "");
	put(w.dir_fd, "store/branches/stray", "a file is no branch");
	/* Of a creator that is gone, and of one that is not. */
	(void)snprintf(mine, sizeof(mine), "store/trash/~new-%d-1", getpid());
	assert_int_equal(mkdirat(w.dir_fd, mine, 0700), 0);
	assert_int_equal(
		mkdirat(w.dir_fd, "store/trash/~new-2147483647-1", 0700), 0);
	assert_int_equal(store_list(w.st, &names, &n, &err), 0);
	assert_int_equal(n, 0);
	store_names_free(names, n);
	wait_gone(w.dir_fd, "store/trash/~new-2147483647-1");
	assert_true(exists(w.dir_fd, mine));
	assert_int_equal(unlinkat(w.dir_fd, mine, AT_REMOVEDIR), 0);
	create_web(&w);
	trash_entry(&w, entry);
	if (entry[0])
		wait_gone(w.dir_fd, entry);
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
		.equal = &made,
		.n_equal = 1,
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
	assert_true(back.equal[0].ino == UINT64_MAX);
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
	(void)snprintf(path, sizeof(path), "%s/nowhere/branches/f", w.dir);
	assert_int_equal(symlinkat(path, w.dir_fd, "store/branches/f"), 0);
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
	assert_non_null(strstr(err.hint, "SANDLOCK_STORE"));
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
		if (!made && !is_empty_dir(w->dir_fd, "small/trash"))
			return 9;
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
		cmocka_unit_test(a_name_is_claimed_once),
		cmocka_unit_test(a_hundred_claims_race_and_one_wins),
		cmocka_unit_test(awkward_paths_are_mounted),
		cmocka_unit_test(removal_is_not_waited_for_and_holds_nothing),
		cmocka_unit_test(removal_is_resumed_by_the_next_verb),
		cmocka_unit_test(empty_ones_are_left_until_there_are_many),
		cmocka_unit_test(cradles_spread_branches_over_the_disk),
		cmocka_unit_test(immutable_objects_are_removed_too),
		cmocka_unit_test(a_part_can_be_discarded),
		cmocka_unit_test(a_branch_that_was_removed_is_gone_for_others),
		cmocka_unit_test(the_rest_of_a_branch_is_cleared_away),
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
		cmocka_unit_test(a_discarded_branch_leaves_its_name),
		cmocka_unit_test(a_missing_lower_is_no_branch),
	};

	return RUN_TESTS(tests);
}
