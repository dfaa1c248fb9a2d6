#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "policy/syscalls.h"
#include "supervise/internal.h"

static int check_row(const struct handler *h, struct error *err)
{
	if (h->nr < 0 || h->nr >= TABLE_NR_MAX)
		return error_say(err, ERR_SYSTEM, EINVAL,
				 "handler '%s': no system call has number %d",
				 h->name, h->nr);
	if (h->account && !h->account->settle)
		return error_say(
			err, ERR_SYSTEM, EINVAL,
			"handler '%s': an account that settles nothing",
			h->name);
	return 0;
}

static void note_32(struct table *t, const struct handler *h)
{
	int nr = h->takes_32 ? policy_syscall_number_32(h->name) : -1;

	if (nr >= 0 && t->n_other < TABLE_32_MAX)
		t->other[t->n_other++] = (struct number_32){ nr, h->nr };
}

int handlers_native(const struct table *t, int nr)
{
	for (size_t i = 0; i < t->n_other; i++)
		if (t->other[i].theirs == nr)
			return t->other[i].ours;
	return -1;
}

int handlers_init(struct table *t, const struct handler *rows, size_t n,
		  struct error *err)
{
	uint16_t fill[TABLE_NR_MAX + 1];

	memset(t, 0, sizeof(*t));
	if (n > UINT16_MAX)
		return error_say(err, ERR_SYSTEM, E2BIG, "too many handlers");
	for (size_t i = 0; i < n; i++) {
		int r = check_row(&rows[i], err);

		if (r < 0)
			return r;
		t->first[rows[i].nr + 1]++;
		note_32(t, &rows[i]);
	}
	for (size_t i = 0; i < TABLE_NR_MAX; i++)
		t->first[i + 1] = (uint16_t)(t->first[i + 1] + t->first[i]);
	t->rows = calloc(n ? n : 1, sizeof(*t->rows));
	if (!t->rows)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot keep the handlers");
	memcpy(fill, t->first, sizeof(fill));
	for (size_t i = 0; i < n; i++)
		t->rows[fill[rows[i].nr]++] = rows[i];
	return 0;
}

void handlers_done(struct table *t)
{
	free(t->rows);
	t->rows = NULL;
}

struct chain handlers_find(const struct table *t, int nr)
{
	if (nr < 0 || nr >= TABLE_NR_MAX)
		return (struct chain){ NULL, NULL };
	return (struct chain){ t->rows + t->first[nr],
			       t->rows + t->first[nr + 1] };
}
