#include "spec/state.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "spec/spec.h"

CLEANUP_PTR(struct json_out, json_out_free);

static void add_given(struct json_out *o, const char *key, const char *value)
{
	if (value)
		json_out_str_member(o, key, value);
}

static const char *version_of(const struct state_view *v)
{
	return v->oci_version ? v->oci_version : SPEC_OCI_VERSION;
}

static void add_state(struct json_out *o, const struct state_view *v)
{
	json_out_object(o);
	json_out_str_member(o, "ociVersion", version_of(v));
	json_out_str_member(o, "id", v->id);
	json_out_int_member(o, "pid", v->pid);
	json_out_str_member(o, "status", v->status);
	json_out_str_member(o, "bundle", v->bundle);
	add_given(o, "rootfs", v->rootfs);
	add_given(o, "created", v->created);
	if (v->n_annotations) {
		json_out_key(o, "annotations");
		json_out_object(o);
		for (size_t i = 0; i < v->n_annotations; i++)
			json_out_str_member(o, v->annotations[i].key,
					    v->annotations[i].value);
		json_out_object_end(o);
	}
	add_given(o, "owner", v->owner);
	json_out_object_end(o);
}

int state_json(const struct state_view *v, bool pretty, struct buf *ret)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(pretty);

	if (!o)
		return -ENOMEM;
	add_state(o, v);
	return json_out_end(o, ret);
}

int state_seccomp_json(const struct state_view *v, pid_t pid,
		       const char *metadata, struct buf *ret)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);

	if (!o)
		return -ENOMEM;
	json_out_object(o);
	json_out_str_member(o, "ociVersion", version_of(v));
	json_out_key(o, "fds");
	json_out_array(o);
	json_out_str(o, "seccompFd");
	json_out_array_end(o);
	json_out_int_member(o, "pid", pid);
	add_given(o, "metadata", metadata);
	json_out_key(o, "state");
	add_state(o, v);
	json_out_object_end(o);
	return json_out_end(o, ret);
}
