/* The documents that spec/ writes: features, state, the default bundle. */
#include "spec/features.h"

#include <sys/wait.h>

#include "base/json.h"
#include "base/subid.h"
#include "spec/spec.h"
#include "spec/state.h"
#include "unit.h"

CLEANUP_PTR(struct json, json_free);
CLEANUP_PTR(struct spec, spec_free);

static struct json *parse(const struct buf *b)
{
	static const struct json_limits limits = { 1 << 20, 16, 10000 };
	struct json *j = NULL;
	struct error err = ERROR_INIT;

	if (json_parse(b->data, b->len, &limits, "t", &j, &err) < 0)
		fail_msg("%s\n%s", err.msg, buf_str(b));
	return j;
}

static bool has(const struct json *list, const char *s)
{
	for (size_t i = 0; list && i < list->n; i++)
		if (strcmp(list->items[i].text, s) == 0)
			return true;
	return false;
}

static struct json *features(void)
{
	static const char *const actions[] = { "SCMP_ACT_ALLOW", NULL };
	static const char *const none[] = { NULL };
	const struct features_input in = {
		.version = "1.2.3",
		.libseccomp_version = "2.5.4",
		.seccomp_actions = actions,
		.seccomp_operators = none,
		.seccomp_archs = none,
		.seccomp_known_flags = none,
		.seccomp_supported_flags = none,
		.apparmor = true,
	};
	auto_(buf) struct buf b = BUF_INIT;

	assert_int_equal(features_json(&in, &b), 0);
	return parse(&b);
}

static void features_name_what_the_parser_knows(void **state)
{
	auto_ptr(json_free) struct json *j = features();
	const struct json *l = json_get(j, "linux"), *options;

	assert_string_equal(json_str_or(j, "ociVersionMin", ""), "1.0.0");
	assert_string_equal(json_str_or(j, "ociVersionMax", ""), "1.3.0");
	assert_int_equal(json_get(j, "hooks")->n, 6);
	assert_true(has(json_get(j, "hooks"), "startContainer"));
	options = json_get(j, "mountOptions");
	assert_true(has(options, "rro") && has(options, "tmpcopyup") &&
		    has(options, "idmap") && has(options, "nosymfollow"));
	assert_false(has(options, "size"));
	assert_int_equal(json_get(l, "namespaces")->n, 8);
	assert_true(has(json_get(l, "namespaces"), "time"));
	assert_true(has(json_get(l, "capabilities"), "CAP_CHECKPOINT_RESTORE"));
	assert_true(has(json_get(json_get(l, "seccomp"), "actions"),
			"SCMP_ACT_ALLOW"));
	assert_int_equal(json_get(json_get(l, "seccomp"), "archs")->n, 0);
	assert_true(json_bool_or(json_get(l, "apparmor"), "enabled", false));
	assert_false(json_bool_or(json_get(l, "selinux"), "enabled", true));
	assert_false(json_bool_or(json_get(l, "intelRdt"), "enabled", true));
	assert_true(has(json_get(json_get(l, "memoryPolicy"), "modes"),
			"MPOL_BIND"));
	assert_true(has(json_get(j, "potentiallyUnsafeConfigAnnotations"),
			"io.sandlock."));
	assert_string_equal(json_str_or(json_get(j, "annotations"),
					"io.sandlock.version", ""),
			    "1.2.3");
}

/* The search for an option relies on the order; data knows none of them. */
static void every_mount_option_is_understood(void **state)
{
	auto_ptr(json_free) struct json *j = features();
	const struct json *options = json_get(j, "mountOptions");

	for (size_t i = 0; i < options->n; i++) {
		const char *o = options->items[i].text;
		auto_(buf) struct buf b = BUF_INIT;
		struct error err = ERROR_INIT;
		struct spec *s = NULL;
		bool is_bind = strstr(o, "idmap") || strcmp(o, "scratch") == 0;

		buf_printf(&b,
			   "{\"ociVersion\":\"1.0.0\",\"root\":{\"path\":\"r\"}"
			   ",\"linux\":{\"namespaces\":[{\"type\":\"user\","
			   "\"path\":\"/x\"}]},\"mounts\":[{\"destination\":"
			   "\"/d\",\"type\":\"tmpfs\",\"source\":\"s\","
			   "\"options\":[\"%s\"%s]}]}",
			   o, is_bind ? ",\"bind\"" : "");
		if (spec_parse(b.data, b.len, "/b", NULL, &s, &err) < 0)
			fail_msg("%s: %s", o, err.msg);
		if (s->mounts[0].data)
			fail_msg("'%s' went to the data", o);
		spec_free(s);
	}
}

static void the_state_has_runcs_form(void **state)
{
	struct spec_pair annotations[] = { { (char *)"a", (char *)"b\n" } };
	const struct state_view v = {
		.oci_version = "1.0.2",
		.id = "web",
		.pid = 12,
		.status = "running",
		.bundle = "/b",
		.rootfs = "/b/rootfs",
		.created = "2024-01-02T03:04:05.6Z",
		.annotations = annotations,
		.n_annotations = 1,
		.owner = "",
	};
	auto_(buf) struct buf b = BUF_INIT;

	assert_int_equal(state_json(&v, true, &b), 0);
	assert_string_equal(buf_str(&b),
			    "{\n"
			    "  \"ociVersion\": \"1.0.2\",\n"
			    "  \"id\": \"web\",\n"
			    "  \"pid\": 12,\n"
			    "  \"status\": \"running\",\n"
			    "  \"bundle\": \"/b\",\n"
			    "  \"rootfs\": \"/b/rootfs\",\n"
			    "  \"created\": \"2024-01-02T03:04:05.6Z\",\n"
			    "  \"annotations\": {\n"
			    "    \"a\": \"b\\n\"\n"
			    "  },\n"
			    "  \"owner\": \"\"\n"
			    "}\n");
}

static void the_state_for_others_is_compact(void **state)
{
	const struct state_view v = { .id = "web",
				      .status = "creating",
				      .bundle = "/b" };
	auto_(buf) struct buf hook = BUF_INIT, agent = BUF_INIT;

	assert_int_equal(state_json(&v, false, &hook), 0);
	assert_string_equal(
		buf_str(&hook),
		"{\"ociVersion\":\"1.3.0\",\"id\":\"web\",\"pid\":0,"
		"\"status\":\"creating\",\"bundle\":\"/b\"}\n");
	assert_int_equal(state_seccomp_json(&v, 7, "m", &agent), 0);
	assert_string_equal(
		buf_str(&agent),
		"{\"ociVersion\":\"1.3.0\",\"fds\":[\"seccompFd\"],"
		"\"pid\":7,\"metadata\":\"m\",\"state\":"
		"{\"ociVersion\":\"1.3.0\",\"id\":\"web\",\"pid\":0,"
		"\"status\":\"creating\",\"bundle\":\"/b\"}}\n");
}

static struct spec *default_spec(bool rootless)
{
	auto_(buf) struct buf b = BUF_INIT;
	struct error err = ERROR_INIT;
	struct spec *s = NULL;

	assert_int_equal(spec_default_json(rootless, &b, &err), 0);
	if (spec_parse(b.data, b.len, "/b", NULL, &s, &err) < 0)
		fail_msg("%s\n%s", err.msg, buf_str(&b));
	return s;
}

static void the_default_spec_is_valid(void **state)
{
	auto_ptr(spec_free) struct spec *s = default_spec(false);

	assert_false(s->root_readonly);
	assert_string_equal(s->root_path, "/b/rootfs");
	assert_string_equal(s->hostname, "sandlock");
	assert_true(s->process.terminal && s->process.no_new_privileges);
	assert_string_equal(s->process.args.v[0], "sh");
	assert_int_equal(s->process.caps.inheritable, 0);
	assert_int_equal(s->process.caps.ambient, 0);
	assert_true(s->process.caps.bounding == (1 << 29 | 1 << 5 | 1 << 10));
	assert_int_equal(s->n_mounts, 7);
	assert_int_equal(s->mounts[6].kind, SPEC_MOUNT_CGROUP);
	assert_int_equal(s->ns[SPEC_NS_NETWORK].want, SPEC_NS_NEW);
	assert_int_equal(s->ns[SPEC_NS_USER].want, SPEC_NS_INHERIT);
	assert_int_equal(s->resources.n_devices, 1);
	assert_int_equal(s->masked_paths.n, 10);
	assert_int_equal(s->readonly_paths.n, 5);
}

static void the_rootless_spec_maps_the_caller(void **state)
{
	auto_ptr(spec_free) struct spec *s = default_spec(true);
	auto_(idmap) struct idmap maps = IDMAP_INIT;

	assert_int_equal(subid_default_maps(&maps, NULL), 0);
	assert_int_equal(s->ns[SPEC_NS_USER].want, SPEC_NS_NEW);
	assert_int_equal(s->ns[SPEC_NS_NETWORK].want, SPEC_NS_INHERIT);
	assert_false(s->has_resources);
	assert_int_equal(s->idmap.uids.n, maps.uids.n);
	assert_int_equal(s->idmap.uids.extents[0].outside, geteuid());
	assert_int_equal(s->idmap.gids.extents[0].inside, 0);
	assert_string_equal(s->mounts[2].destination, "/dev/pts");
	assert_null(strstr(s->mounts[2].data, "gid="));
	assert_string_equal(s->mounts[5].destination, "/sys");
	assert_int_equal(s->mounts[5].kind, SPEC_MOUNT_BIND);
	assert_string_equal(s->mounts[5].source, "/sys");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(features_name_what_the_parser_knows),
		cmocka_unit_test(every_mount_option_is_understood),
		cmocka_unit_test(the_state_has_runcs_form),
		cmocka_unit_test(the_state_for_others_is_compact),
		cmocka_unit_test(the_default_spec_is_valid),
		cmocka_unit_test(the_rootless_spec_maps_the_caller),
	};

	return RUN_TESTS(tests);
}
