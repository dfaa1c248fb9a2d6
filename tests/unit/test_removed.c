/*
 * The host removed something that the branch has changed, or the branch moved
 * it: both look alike (branch/origin.h). As root and as an ordinary user.
 */
#include "branch_fixture.h"

#include "unit_user.h"

#include "base/subid.h"

struct removed_row {
	const char *name, *inside;
	const char *running; /* shell in the lower, before it is settled */
	const char *pending; /* and afterwards */
	const char *diff, *user_diff; /* NULL: the same */
	bool is_watched;	      /* while it was running */
	bool is_committed; /* that follows at once: nothing is noted */
	bool has_events;   /* they are read when the host is through */
};

static const char lower_script[] =
	"mkdir d e; echo 1 > d/f; ln -s x d/l; echo 3 > k; echo 4 > e/g; "
	"mkdir z; echo 7 | tee z/f > z/n; ln -s y z/l; mkdir -p y/r; echo 8 > "
	"y/r/n";

#define ANOTHER " CONFLICT another one is there on the host now\n"
#define OTHER_DIR " CONFLICT its directory is another one on the host now\n"
#define META " CONFLICT its mode, owner or attributes changed on the host\n"
#define LOST(path) "A " path " CONFLICT removed on the host\n"

/* clang-format off */
static const struct removed_row removed_rows[] = {
	{ "changed, and another one deleted", "echo b >> d/f; rm k",
	  "rm d/f", NULL, LOST("d/f") "D k\n", NULL },
	{ "the same while it waits", "echo b >> d/f; rm k",
	  NULL, "rm d/f", LOST("d/f") "D k\n", NULL },
	{ "moved away on the host", "echo b >> d/f; rm k",
	  "mv d/f d/z", NULL, LOST("d/f") "D k\n", NULL },
	{ "a link with another time", "touch -h -d @99.5 d/l; rm k",
	  NULL, "rm d/l", LOST("d/l -> x") "D k\n", NULL },
	{ "replaced by a new file", "echo b > t; mv t d/f; rm k",
	  NULL, "rm d/f", LOST("d/f") "D k\n", NULL },
	{ "replaced by a directory", "rm d/f; mkdir d/f; echo b > d/f/x",
	  NULL, "rm d/f", LOST("d/f/") "A d/f/x\n", NULL },
	{ "a directory that was made anew", "rm -r e; mkdir e; echo b > e/x",
	  NULL, "rm -r e", LOST("e/") "A e/x\n", NULL },
	{ "moved by the branch", "mv d/f d/h",
	  "echo h > d/n", "echo h > d/m", "D d/f\nA d/h\n", NULL },
	{ "moved out of a directory that goes", "mv e/g g; rm -r e",
	  "echo h > n", NULL, "D e/\nA g\n", NULL },
	{ "moved, and something else in its place", "mv k j; echo b > k",
	  "echo h > n", NULL, "A j\nM k\n", NULL },
	{ "a second name", "ln k j", "echo h > n", NULL,
	  "A j\nm k (link to j)\n", NULL },
	{ "in a directory that is another one now", "echo b >> d/f; rm d/l",
	  NULL, "mv d old; mv z d", "M d/f" ANOTHER "D d/l" ANOTHER, NULL },
	{ "new, where something old was put",
	  "echo b > d/n; mkdir -p q/r; echo b > q/r/n",
	  NULL, "mv d old; mv z d; mv y q",
	  "M d/n" ANOTHER "M q/r/n" ANOTHER, NULL },
	{ "in a directory that both have made",
	  "mkdir -p q/r; echo b > q/r/n; touch q/r/m; echo b > t; mv t d/f",
	  "mv y q; touch d/h", NULL,
	  "M d/f\nA q/r/m\nM q/r/n CONFLICT made on the host, too\n",
	  "M d/f" OTHER_DIR "A q/r/m\n"
	  "M q/r/n CONFLICT made on the host, too\n" },
	/* Nothing tells an ordinary user which one it was. */
	{ "in a directory that was another one before it was settled",
	  "echo b >> d/f; rm d/l; echo b >> e/g", "mv d old; mv z d; touch e/h",
	  NULL, "M d/f CONFLICT made on the host, too\n"
	  "D d/l CONFLICT made on the host, too\nM e/g\n",
	  "M d/f" OTHER_DIR "D d/l" OTHER_DIR "M e/g" OTHER_DIR },
	{ "and what is noted then says nothing",
	  "echo b >> d/f; rm d/l; echo b >> e/g; sleep 0.05",
	  "touch e/h", "mv d old; mv z d",
	  "M d/f" ANOTHER "D d/l" ANOTHER "M e/g\n", NULL },
	{ "in another directory, and nothing is noted",
	  "echo b >> d/f; rm d/l; echo b >> e/g; sleep 0.05",
	  "mv d old; mv z d; touch d/h", NULL,
	  "M d/f CONFLICT made on the host, too\n"
	  "D d/l CONFLICT made on the host, too\nM e/g\n",
	  "M d/f" OTHER_DIR "D d/l" OTHER_DIR "M e/g\n",
	  .is_committed = true },
	{ "the directory above is another one, and nothing is noted",
	  "echo b >> y/r/n; rm k; sleep 0.05",
	  "mkdir q; mv y old; mv old/r q; touch old/h; mv q y; touch y/h", NULL,
	  "D k\nM y/r/n" OTHER_DIR, NULL, .is_committed = true },
	{ "a directory made anew by the host, mode changed", "chmod 700 d; rm k",
	  "rm -r d; mkdir d", NULL, "m d/" META "D k\n", NULL },
	{ "and nothing is noted", "chmod 700 d; rm k",
	  "rm -r d; mkdir d; echo h > d/h", NULL, "m d/" META "D k\n", NULL,
	  .is_committed = true },
	{ "a directory that goes is another one", "rm -r d",
	  "mv d old; mv z d; touch d/h; rm d/h", NULL,
	  "D d/ CONFLICT changed on the host since the branch began\n", NULL },
	{ "a directory that was made anew was another one", "rm -r d; mkdir d",
	  "mv d old; mv z d; touch d/h; rm d/h", NULL,
	  "T d/ CONFLICT changed on the host since the branch began\n", NULL,
	  .is_committed = true },
	{ "the host is at work beside it", "echo b >> d/f; rm e/g; chmod 700 y",
	  "touch d/h e/h y/h; rm d/h", NULL, "M d/f\nD e/g\nm y/\n", NULL },
	{ "and nothing of that is noted", "echo b >> d/f; rm e/g; chmod 700 y",
	  "touch d/h e/h y/h; rm d/h", NULL, "M d/f\nD e/g\nm y/\n", NULL,
	  .is_committed = true },
	{ "and that was seen before and after",
	  "echo b >> d/f; rm d/l; echo b >> e/g", "mv d old; mv z d; touch e/h",
	  NULL, "M d/f" ANOTHER "D d/l" ANOTHER "M e/g\n", NULL, true },
	{ "the host is at work in it, and above, before an event is read",
	  "echo b >> d/f; echo b >> y/r/n", "touch h d/h y/h y/r/h; rm d/h",
	  NULL, "M d/f\nM y/r/n\n", NULL, .has_events = true },
	{ "another directory is there before an event is read",
	  "echo b >> d/f; echo b >> e/g",
	  "mv d old; mv z d; rm -r e; mkdir e; echo h > e/g", NULL,
	  "M d/f CONFLICT made on the host, too\n"
	  "M e/g CONFLICT changed on the host since the branch began\n",
	  "M d/f" OTHER_DIR
	  "M e/g CONFLICT changed on the host since the branch began\n",
	  .has_events = true },
	{ "new beside what the host has changed", "echo b > d/n; rm k",
	  "rm d/f", "echo h > d/h", "A d/n\nD k\n", NULL },
	/* Nothing tells an ordinary user that it was moved. */
	{ "moved and changed", "mv d/f d/h; echo b >> d/h",
	  "echo h > d/n", NULL, "D d/f\nA d/h\n", "D d/f\n" LOST("d/h") },
};
/* clang-format on */

static void check_row(void **state)
{
	const struct removed_row *row = *state;
	struct fixture f;

	fixture_open(&f, lower_script);
	f.meanwhile = row->running;
	f.is_watched = row->is_watched;
	f.has_events = row->has_events;
	f.on_exit = row->is_committed ? DISPOSE_COMMIT : DISPOSE_DEFER;
	fixture_run(&f, row->inside, NULL);
	if (row->pending)
		shell(f.lower, row->pending);
	assert_diff(&f, CHANGE_WANT_CONFLICTS,
		    geteuid() != 0 && row->user_diff ? row->user_diff
						     : row->diff);
	assert_int_equal(branch_abort(f.branch, NULL, 0, &err), 0);
	fixture_close(&f);
}

static int run_rows(const char *as)
{
	struct CMUnitTest tests[ARRAY_LEN(removed_rows)];

	for (size_t i = 0; i < ARRAY_LEN(removed_rows); i++)
		tests[i] = (struct CMUnitTest){
			.name = removed_rows[i].name,
			.test_func = check_row,
			.initial_state = (void *)&removed_rows[i],
		};
	return _cmocka_run_group_tests(as, tests, ARRAY_LEN(tests), NULL, NULL);
}

int main(void)
{
	int status;
	pid_t pid;

	if (geteuid() != 0)
		return unit_needs_root();
	pid = fork();
	if (pid == 0)
		return become_user(true) != 0 ||
		       subid_default_maps(&fixture_map, &err) < 0 ||
		       run_rows("as an ordinary user");
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		return 1;
	return run_rows("as root");
}
