/*
 * config.json: what is refused is refused with a message that may go to a
 * terminal, what is accepted keeps what spec.h promises.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "spec/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

CLEANUP_PTR(struct spec, spec_free);
CLEANUP_PTR(struct spec_process, spec_process_free);

static void check_text(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			abort();
}

static void check_warning(void *unused, enum log_level level, const char *msg)
{
	check_text(msg);
}

static void check_strings(const struct spec_strings *s)
{
	if (!s->v)
		return;
	for (size_t i = 0; i < s->n; i++)
		if (!s->v[i])
			abort();
	if (s->v[s->n])
		abort();
}

static void check_process(const struct spec_process *p)
{
	auto_ptr(spec_process_free) struct spec_process *copy = NULL;

	if (p->cwd[0] != '/' || p->args.n == 0)
		abort();
	check_strings(&p->args);
	check_strings(&p->env);
	for (size_t i = 0; i < p->env.n; i++)
		if (!strchr(p->env.v[i], '='))
			abort();
	if (spec_process_copy(p, &copy) < 0)
		abort();
	if (copy->env.n != p->env.n || strcmp(copy->cwd, p->cwd) != 0)
		abort();
}

static void check_spec(const struct spec *s)
{
	if (s->root_path[0] != '/')
		abort();
	if (s->has_process)
		check_process(&s->process);
	for (size_t i = 0; i < s->n_mounts; i++) {
		const struct spec_mount *m = &s->mounts[i];

		if (m->destination[0] != '/' || m->set & m->clear)
			abort();
		if (m->kind == SPEC_MOUNT_BIND ? m->source[0] != '/' : !m->type)
			abort();
	}
	for (size_t i = 0; i < s->n_sysctls; i++)
		if (s->sysctls[i].key[0] == '/' ||
		    strstr(s->sysctls[i].key, "/../"))
			abort();
	check_strings(&s->masked_paths);
	check_strings(&s->readonly_paths);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct log_sink log = { check_warning, NULL };
	auto_ptr(spec_free) struct spec *s = NULL;
	struct error err = ERROR_INIT;
	int r = spec_parse((const char *)data, size, "/bundle", &log, &s, &err);

	if (r == 0) {
		check_spec(s);
		return 0;
	}
	if (r > 0 || s || err.kind == ERR_NONE || !err.msg[0])
		abort();
	check_text(err.msg);
	return 0;
}
