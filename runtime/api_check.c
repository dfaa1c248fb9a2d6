/* check, and the table of system calls. */
#include <errno.h>
#include <stdlib.h>

#include "api.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "policy/syscalls.h"
#include "sandbox/check.h"

int sandlock_check(const struct sandlock_env *env, struct sandlock_check *ret,
		   struct sandlock_error *err)
{
	struct sandlock_check_row *rows;
	struct error e = ERROR_INIT;
	struct check c = { .n = 0 };
	struct api_env a;
	int r;

	api_env_init(&a, env);
	r = sandbox_check(&a.env, &c, &e);
	if (r < 0)
		return api_result(r, &e, err);
	rows = calloc(c.n + 1, sizeof(*rows));
	if (!rows) {
		check_done(&c);
		r = error_set(&e, ERR_SYSTEM, ENOMEM, "check");
		return api_result(r, &e, err);
	}
	for (size_t i = 0; i < c.n; i++)
		rows[i] = (struct sandlock_check_row){
			.name = c.rows[i].name,
			.state = (enum sandlock_check_state)c.rows[i].state,
			.found = c.rows[i].found,
			.means = c.rows[i].means,
			.fix = c.rows[i].fix,
		};
	*ret = (struct sandlock_check){
		.rows = rows,
		.n_rows = c.n,
		.tier = c.tier,
		.landlock_abi = c.landlock_abi,
		.usable = c.usable,
	};
	free(c.rows); /* Its texts were handed over. */
	return api_result(0, &e, err);
}

void sandlock_check_done(struct sandlock_check *c)
{
	for (size_t i = 0; i < c->n_rows; i++) {
		free(c->rows[i].found);
		free(c->rows[i].means);
		free(c->rows[i].fix);
	}
	free(c->rows);
	*c = (struct sandlock_check){ .n_rows = 0 };
}

int sandlock_syscalls(char **ret_json, struct sandlock_error *err)
{
	struct json_out *o = json_out_new(true);
	auto_(buf) struct buf b = BUF_INIT;
	struct error e = ERROR_INIT;
	char *text = NULL;
	int r;

	policy_syscalls_json(o);
	r = json_out_end(o, &b);
	json_out_free(o);
	if (r == 0)
		text = buf_take(&b, NULL);
	if (!text) {
		r = error_set(&e, ERR_SYSTEM, ENOMEM, "system calls");
		return api_result(r, &e, err);
	}
	*ret_json = text;
	return api_result(0, &e, err);
}
