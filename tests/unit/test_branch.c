/* The life of a branch on disk. test_branch_user.c: as an ordinary user. */
#include "branch_world.h"

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

/* fsconfig(2) takes 255 bytes, and a name is as long by itself. */
static void layers_with_long_paths_can_be_named_by_strings(void **state)
{
	char name[256];
	struct world w;

	need_root();
	setup(&w);
	(void)memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(create(&w, name, &w.b), 0);
	assert_int_equal(overlay_mount(w.b, true, &w.mount_fd, &err), 0);
	assert_true(exists(w.mount_fd, "a"));
	put(w.mount_fd, "new", "");
	assert_true(exists(w.b->upper_fd, "new"));
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

/* Before Linux 6.13 the times are the same until the clock ticks. */
static void a_file_of_another_size_is_another(void **state)
{
	struct stat st = { .st_mode = S_IFREG | 0644, .st_ino = 7 };
	struct branch_record r = { .path = NULL };

	record_set(&r, &st);
	assert_true(record_is(&r, &st));
	st.st_size = 1;
	assert_false(record_is(&r, &st));
	r.size = -1; /* it was not noted */
	assert_true(record_is(&r, &st));
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
	struct world w;

	setup(&w);
	create_web(&w);
	assert_int_equal(proc_id_of(getpid(), &w.b->meta.init), 0);
	assert_int_equal(branch_save(w.b, false, &err), 0);
	branch_unlock(w.b);
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

static void a_name_that_was_taken_meanwhile_is_left_to_its_owner(void **state)
{
	struct branch_options o = { .name = "web" };
	struct branch *late = NULL;
	char lower[300];
	struct world w;

	setup(&w);
	(void)snprintf(lower, sizeof(lower), "%s/lower", w.dir);
	o.lower = lower;
	assert_int_equal(branch_begin(w.st, &o, &late, &err), 0);
	create_web(&w);
	assert_int_equal(branch_make(late, &err), -EEXIST);
	assert_int_equal(err.kind, ERR_EXISTS);
	branch_discard(late);
	branch_close(late);
	assert_int_equal(access(branch_upper(w.b), F_OK), 0);
	late = NULL;
	assert_int_equal(branch_find(w.st, "web", &late, &err), 0);
	branch_close(late);
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

static void a_durable_branch_has_no_marker(void **state)
{
	char lower[300];
	struct branch_options o = {
		.name = "web",
		.lower = lower,
		.durable = true,
	};
	struct world w;

	need_root();
	setup(&w);
	(void)snprintf(lower, sizeof(lower), "%s/lower", w.dir);
	assert_int_equal(branch_create(w.st, &o, &w.b, &err), 0);
	mount_web(&w);
	put(w.mount_fd, "b", "new\n");
	assert_false(branch_has_marker(w.b));
	unmount(&w);
	run(&w, NULL, 0);
	assert_int_equal(settle(&w).n_changes, 1);
	assert_int_equal(state_of(w.b), BRANCH_PENDING);
	w.b->meta.boot_id[0] ^= 1;
	assert_int_equal(state_of(w.b), BRANCH_PENDING);
	w.b->meta.settled = false;
	assert_int_equal(state_of(w.b), BRANCH_TORN);
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
	assert_int_equal(branch_dispose(w->b, false, &o, &err), 0);
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
	assert_int_equal(branch_dispose(w.b, false, &o, &err), 0);
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
	assert_int_equal(branch_dispose(w.b, false, &o, &err), 0);
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
	assert_true(branch_dispose(w.b, false, &o, &err) < 0);
	assert_int_equal(err.kind, ERR_CONFLICT);
	assert_int_equal(o, OUTCOME_PENDING);
	assert_int_equal(state_of(w.b), BRANCH_PENDING);
	/* Now that it waits it is on disk. */
	assert_false(branch_has_marker(w.b));
	teardown(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_branch_has_the_face_of_its_lower),
		cmocka_unit_test(what_was_written_is_pending),
		cmocka_unit_test(layers_can_be_named_by_strings),
		cmocka_unit_test(
			layers_with_long_paths_can_be_named_by_strings),
		cmocka_unit_test(an_empty_branch_disappears),
		cmocka_unit_test(
			what_the_runtime_made_counts_once_it_is_changed),
		cmocka_unit_test(a_file_of_another_size_is_another),
		cmocka_unit_test(a_file_that_came_and_went_leaves_nothing),
		cmocka_unit_test(a_mode_alone_is_a_change),
		cmocka_unit_test(a_branch_lives_as_long_as_its_overlay),
		cmocka_unit_test(a_branch_lives_as_long_as_init),
		cmocka_unit_test(a_branch_that_is_being_made_is_alive),
		cmocka_unit_test(
			a_name_that_was_taken_meanwhile_is_left_to_its_owner),
		cmocka_unit_test(a_reboot_before_settling_tears),
		cmocka_unit_test(a_durable_branch_has_no_marker),
		cmocka_unit_test(a_reboot_before_the_disposition_tears),
		cmocka_unit_test(settling_goes_on_where_it_was_cut_off),
		cmocka_unit_test(many_objects_settle_too),
		cmocka_unit_test(special_files_are_not_opened),
		cmocka_unit_test(a_deep_tree_settles_too),
		cmocka_unit_test(a_disposition_is_carried_out),
		cmocka_unit_test(an_unknown_status_disposes_of_nothing),
		cmocka_unit_test(a_commit_that_conflicts_leaves_it_pending),
	};

	return RUN_TESTS(tests);
}
