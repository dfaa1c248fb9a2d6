#include <linux/mount.h>
#include <sys/mount.h>

#include "spec_cases.h"

#define OPTIONS(x) MOUNT("'type':'tmpfs','source':'s','options':[" x "]")
#define BIND(x) MOUNT("'source':'s','options':['bind'" x "]")
#define MAP "[{'containerID':0,'hostID':1,'size':2}]"

/* clang-format off */
static const struct spec_case cases[] = {
	{ DOC("'mounts':{}"), "mounts: must be an array" },
	{ DOC("'mounts':[{'type':'tmpfs'}]"), "mounts[0].destination: is required" },
	{ DOC("'mounts':[{'destination':'','type':'tmpfs'}]"), "mounts[0].destination: must not be empty" },
	{ MOUNT("'source':'s'"), "mounts[0].type: is required for a mount without the option 'bind'" },
	{ MOUNT("'type':'bind','source':'/s'"), "mounts[0].options: a bind mount needs the option 'bind' or 'rbind'" },
	{ MOUNT("'type':'bind','options':['bind']"), "mounts[0].source: is required for a bind mount" },
	{ MOUNT("'type':'tmpfs','options':'ro'"), "mounts[0].options: must be an array" },
	{ OPTIONS("1"), "mounts[0].options[0]: must be a string" },
	{ BIND(",'tmpcopyup'"), "'tmpcopyup' is only for tmpfs" },
	{ MOUNT("'type':'tmpfs','options':['scratch']"), "'scratch' is only for bind mounts without id mappings" },
	{ MOUNT("'type':'proc','options':['tmpcopyup']"), "'tmpcopyup' is only for tmpfs" },
	{ OPTIONS("'idmap'"), "mounts[0]: only bind mounts can have id mappings" },
	{ BIND(",'idmap'"), "mounts[0]: the option 'idmap' needs uidMappings and gidMappings, or a user namespace" },
	{ MOUNT("'source':'s','options':['bind'],'uidMappings':" MAP),
	  "mounts[0]: uidMappings and gidMappings must be given together" },
	{ MOUNT("'source':'s','options':['bind'],'gidMappings':" MAP), "must be given together" },
	{ BIND(",'idmap=uids=0-1'"), "options[1]: idmap is not of the form" },
	{ BIND(",'idmap=0-1-2'"), "idmap is not of the form" },
	{ BIND(",'idmap=uids=0-1-2x'"), "'x' is left over" },
	{ BIND(",'idmap=uids=@0-1-2;gids=0-1-2'"), "is not supported" },
	{ BIND(",'idmap=uids=0-1-2'"), "must be given together" },
	{ BIND(",'idmap=uids=0-1-0;gids=0-1-1'"), "a mapping is empty" },
	{ BIND(",'idmap=uids=0-1-2#1-9-1;gids=0-1-1'"), "overlap" },
	{ BIND(",'idmap=uids=0-4294967296-2;gids=0-1-1'"), "not of the form" },
	{ BIND(",'idmap=uids=0-4294967295-2;gids=0-1-1'"), "a mapping does not fit in 32 bits" },
};
/* clang-format on */

static void mounts_are_checked(void **state)
{
	CHECK_CASES(cases);
}

static void kinds_are_told_apart(void **state)
{
	struct spec_log log = { "" };
	auto_ptr(spec_free) struct spec *s = spec_try(
		DOC("'mounts':[{'destination':'d/e','type':'proc'},"
		    "{'destination':'/b','source':'rel','options':['rbind']},"
		    "{'destination':'/b','type':'cgroup','source':'/abs',"
		    "'options':['bind']},"
		    "{'destination':'/c','type':'cgroup','source':'cgroup'},"
		    "{'destination':'/c','type':'cgroup2'}]"),
		&log, NULL);

	assert_non_null(s);
	assert_string_equal(s->mounts[0].destination, "/d/e");
	assert_non_null(strstr(log.text, "'d/e' is relative"));
	assert_int_equal(s->mounts[0].kind, SPEC_MOUNT_FS);
	assert_null(s->mounts[0].source);
	assert_int_equal(s->mounts[1].kind, SPEC_MOUNT_BIND);
	assert_true(s->mounts[1].recursive_bind);
	assert_string_equal(s->mounts[1].source, "/bundle/rel");
	assert_int_equal(s->mounts[2].kind, SPEC_MOUNT_BIND);
	assert_false(s->mounts[2].recursive_bind);
	assert_string_equal(s->mounts[2].source, "/abs");
	assert_int_equal(s->mounts[3].kind, SPEC_MOUNT_CGROUP);
	assert_int_equal(s->mounts[4].kind, SPEC_MOUNT_CGROUP);
}

static struct spec *with_options(const char *options)
{
	char text[1024];

	(void)snprintf(text, sizeof(text), OPTIONS("%s"), options);
	return spec_good(text);
}

static void check_flags(const char *options, unsigned long set,
			unsigned long clear, unsigned long propagation,
			const char *data)
{
	auto_ptr(spec_free) struct spec *s = with_options(options);
	const struct spec_mount *m = &s->mounts[0];

	assert_true(m->set == set);
	assert_true(m->clear == clear);
	assert_true(m->propagation == propagation);
	if (data)
		assert_string_equal(m->data, data);
	else
		assert_null(m->data);
}

static void options_become_flags(void **state)
{
	check_flags("'defaults',''", 0, 0, 0, NULL);
	check_flags("'ro','nosuid','nodev','noexec'",
		    MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, 0, 0, NULL);
	check_flags("'rw','suid','dev','exec'", 0,
		    MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, 0, NULL);
	check_flags("'ro','rw'", 0, MS_RDONLY, 0, NULL);
	check_flags("'rw','ro'", MS_RDONLY, 0, 0, NULL);
	check_flags("'noatime','strictatime'", MS_STRICTATIME, 0, 0, NULL);
	check_flags("'relatime','atime'", MS_RELATIME, MS_NOATIME, 0, NULL);
	check_flags("'sync','dirsync','lazytime','mand'",
		    MS_SYNCHRONOUS | MS_DIRSYNC | MS_LAZYTIME | MS_MANDLOCK, 0,
		    0, NULL);
	check_flags("'nosymfollow','remount','silent'",
		    MS_NOSYMFOLLOW | MS_REMOUNT | MS_SILENT, 0, 0, NULL);
	check_flags("'rslave'", 0, 0, MS_SLAVE | MS_REC, NULL);
	check_flags("'shared','private'", 0, 0, MS_PRIVATE, NULL);
	check_flags("'mode=755','size=64k','RO','fooopt'", 0, 0, 0,
		    "mode=755,size=64k,RO,fooopt");
}

static void check_tree_flags(const char *options, uint64_t set, uint64_t clear)
{
	auto_ptr(spec_free) struct spec *s = with_options(options);

	assert_true(s->mounts[0].rec_set == set);
	assert_true(s->mounts[0].rec_clear == clear);
	assert_null(s->mounts[0].data);
}

static void recursive_options_become_attributes(void **state)
{
	check_tree_flags("'rro','rnosuid','rnodev','rnoexec'",
			 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
				 MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
			 0);
	check_tree_flags("'rro','rrw','rsymfollow'", 0,
			 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSYMFOLLOW);
	check_tree_flags("'rnoatime'", MOUNT_ATTR_NOATIME, MOUNT_ATTR__ATIME);
	check_tree_flags("'rnoatime','rstrictatime'", MOUNT_ATTR_STRICTATIME,
			 MOUNT_ATTR__ATIME);
	check_tree_flags("'rstrictatime','ratime'", MOUNT_ATTR_RELATIME,
			 MOUNT_ATTR__ATIME);
	check_tree_flags("'rnorelatime'", 0, 0);
	check_tree_flags("'rnodiratime','rdiratime','rnosymfollow'",
			 MOUNT_ATTR_NOSYMFOLLOW, MOUNT_ATTR_NODIRATIME);
}

static void switches_are_set(void **state)
{
	auto_ptr(spec_free) struct spec *s = with_options("'tmpcopyup'");
	auto_ptr(spec_free) struct spec *b = spec_good(BIND(
		",'copy-symlink','src-nofollow','dest-nofollow','scratch'"));

	assert_true(s->mounts[0].tmpcopyup);
	assert_true(b->mounts[0].copy_symlink && b->mounts[0].src_nofollow &&
		    b->mounts[0].dest_nofollow && b->mounts[0].scratch);
}

static void mappings_come_from_three_places(void **state)
{
	auto_ptr(spec_free) struct spec *own =
		spec_good(MOUNT("'source':'s','options':['rbind','ridmap'],"
				"'uidMappings':" MAP ",'gidMappings':" MAP));
	auto_ptr(spec_free) struct spec *option =
		spec_good(BIND(",'idmap=uids=0-1-2#5-9-1;gids=0-7-1'"));
	auto_ptr(spec_free) struct spec *container =
		spec_good(DOC("'linux':{" NS(
			"{'type':'user'}") ",'uidMappings':" MAP
					   ",'gidMappings':" MAP
					   "},'mounts':[{'destination':'/d',"
					   "'source':'s','options':['bind','"
					   "idmap']}]"));
	auto_ptr(spec_free) struct spec *implied = spec_good(
		MOUNT("'source':'s','options':['bind'],'uidMappings':" MAP
		      ",'gidMappings':" MAP));

	assert_true(own->mounts[0].idmap && own->mounts[0].idmap_recursive);
	assert_int_equal(own->mounts[0].mappings.uids.extents[0].outside, 1);
	assert_int_equal(option->mounts[0].mappings.uids.n, 2);
	assert_int_equal(option->mounts[0].mappings.uids.extents[1].outside, 9);
	assert_int_equal(option->mounts[0].mappings.gids.extents[0].outside, 7);
	assert_true(option->mounts[0].idmap);
	assert_int_equal(container->mounts[0].mappings.gids.extents[0].count,
			 2);
	assert_true(implied->mounts[0].idmap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mounts_are_checked),
		cmocka_unit_test(kinds_are_told_apart),
		cmocka_unit_test(options_become_flags),
		cmocka_unit_test(recursive_options_become_attributes),
		cmocka_unit_test(switches_are_set),
		cmocka_unit_test(mappings_come_from_three_places),
	};

	return RUN_TESTS(tests);
}
