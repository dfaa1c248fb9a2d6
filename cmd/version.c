#include "cmd.h"
#include "spec/spec.h"

/* BUILD_COMMIT: git describe at build time, where there was a git. */
#ifdef BUILD_COMMIT
static const char commit[] = BUILD_COMMIT;
#else
static const char commit[] = "";
#endif

static const char *const features[] = {
	"+SECCOMP", "+CAP", "+YAJL", "+BRANCH", "+SYSTEMD", "-CRIU",
};

static int print_version_json(struct ctx *ctx)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(true);

	if (!o)
		return cmd_fail_memory(ctx);
	json_out_object(o);
	json_out_str_member(o, "schema", "sandlock.version/1");
	json_out_str_member(o, "version", sandlock_version());
	if (*commit)
		json_out_str_member(o, "commit", commit);
	json_out_str_member(o, "spec", SPEC_OCI_VERSION);
	json_out_str_member(o, "libseccomp", sandlock_libseccomp_version());
	json_out_key(o, "features");
	json_out_array(o);
	for (size_t i = 0; i < ARRAY_LEN(features); i++)
		json_out_str(o, features[i]);
	json_out_array_end(o);
	json_out_object_end(o);
	return print_json(ctx, o);
}

/*
 * Engines read this: the first line is "NAME version N" for them, and commit
 * and spec are the second and third.
 */
int version_print(struct ctx *ctx, bool json)
{
	if (json)
		return print_version_json(ctx);
	printf("%s %s%s\n", ctx->program, ctx->engine ? "version " : "",
	       sandlock_version());
	if (*commit)
		printf("commit: %s\n", commit);
	printf("spec: %s\n", SPEC_OCI_VERSION);
	printf("libseccomp: %s\n", sandlock_libseccomp_version());
	for (size_t i = 0; i < ARRAY_LEN(features); i++)
		printf("%s%s", i ? " " : "", features[i]);
	printf("\n");
	return cmd_flush(ctx);
}

int cmd_version(struct ctx *ctx, struct args *args)
{
	return version_print(ctx, args_json(args));
}
