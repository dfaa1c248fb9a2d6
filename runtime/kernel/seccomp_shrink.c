#include "kernel/seccomp_shrink.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum {
	ARCHS_MAX = 16,
	/* A conditional jump goes 255 far; two may be lengthened before it. */
	NEAR = 250,
};

/* What the accumulator holds. */
enum holds { NOTHING, NUMBER, ARCH, OTHER, DIFFERENT };

/* A return, or, where arguments are looked at, the place that loads one. */
struct outcome {
	bool goes_on;
	uint32_t value;
};

/* From this number on, up to the next one. */
struct run {
	uint32_t from;
	struct outcome outcome;
	size_t label;
};

/*
 * The program is built from its end, so that what is jumped to is there. A
 * label is the distance of an instruction from the end; the last one has 1.
 */
struct builder {
	struct sock_filter *v;
	size_t room, n;
	bool full;
};

struct shrink {
	const struct sock_filter *old;
	size_t n;
	uint32_t archs[ARCHS_MAX + 1]; /* and one that is none of them */
	size_t n_archs;
	uint32_t *starts; /* of runs in which no comparison differs */
	size_t n_starts;
	bool *kept; /* of the old program */
	size_t *labels;
	struct run *runs; /* of one architecture */
	struct builder b;
};

static void shrink_done(struct shrink *s)
{
	free(s->starts);
	free(s->kept);
	free(s->labels);
	free(s->runs);
	free(s->b.v);
}

static bool is_jump(const struct sock_filter *f)
{
	return BPF_CLASS(f->code) == BPF_JMP;
}

static bool is_always(const struct sock_filter *f)
{
	return is_jump(f) && BPF_OP(f->code) == BPF_JA;
}

/* --------------------------------------------------- understanding it -- */

static bool note_arch(struct shrink *s, const struct sock_filter *f)
{
	if (BPF_OP(f->code) != BPF_JEQ)
		return false;
	for (size_t i = 0; i < s->n_archs; i++)
		if (s->archs[i] == f->k)
			return true;
	if (s->n_archs == ARCHS_MAX)
		return false;
	s->archs[s->n_archs++] = f->k;
	return true;
}

/* Where the answer to a comparison changes. */
static bool note_number(struct shrink *s, const struct sock_filter *f)
{
	switch (BPF_OP(f->code)) {
	case BPF_JEQ:
		s->starts[s->n_starts++] = f->k;
		if (f->k != UINT32_MAX)
			s->starts[s->n_starts++] = f->k + 1;
		return true;
	case BPF_JGT:
		if (f->k != UINT32_MAX)
			s->starts[s->n_starts++] = f->k + 1;
		return true;
	case BPF_JGE:
		s->starts[s->n_starts++] = f->k;
		return true;
	default:
		return false;
	}
}

/* What the accumulator holds behind @f; false: not understood. */
static bool step(struct shrink *s, const struct sock_filter *f, enum holds *h)
{
	switch (f->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		*h = f->k == offsetof(struct seccomp_data, nr)	   ? NUMBER
		     : f->k == offsetof(struct seccomp_data, arch) ? ARCH
								   : OTHER;
		return true;
	case BPF_RET | BPF_K:
	case BPF_JMP | BPF_JA:
		return true;
	case BPF_ALU | BPF_AND | BPF_K:
		return *h == OTHER;
	case BPF_JMP | BPF_JEQ | BPF_K:
	case BPF_JMP | BPF_JGT | BPF_K:
	case BPF_JMP | BPF_JGE | BPF_K:
	case BPF_JMP | BPF_JSET | BPF_K:
		if (*h == NUMBER)
			return note_number(s, f);
		return *h == ARCH ? note_arch(s, f) : *h == OTHER;
	default:
		return false;
	}
}

static bool flow_to(struct shrink *s, enum holds *before, bool *seen, size_t pc,
		    enum holds h)
{
	if (pc >= s->n)
		return false;
	before[pc] = seen[pc] && before[pc] != h ? DIFFERENT : h;
	seen[pc] = true;
	return true;
}

/* Jumps go forward only, so one pass is enough. */
static bool understand(struct shrink *s, enum holds *before, bool *seen)
{
	bool ok = flow_to(s, before, seen, 0, NOTHING);

	for (size_t pc = 0; ok && pc < s->n; pc++) {
		const struct sock_filter *f = &s->old[pc];
		enum holds h = before[pc];

		if (!seen[pc])
			continue;
		ok = step(s, f, &h);
		if (!ok || BPF_CLASS(f->code) == BPF_RET)
			continue;
		if (is_always(f))
			ok = flow_to(s, before, seen, pc + 1 + f->k, h);
		else if (is_jump(f))
			ok = flow_to(s, before, seen, pc + 1 + f->jt, h) &&
			     flow_to(s, before, seen, pc + 1 + f->jf, h);
		else
			ok = flow_to(s, before, seen, pc + 1, h);
	}
	return ok;
}

static int compare_starts(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void sort_starts(struct shrink *s)
{
	size_t n = 0;

	qsort(s->starts, s->n_starts, sizeof(*s->starts), compare_starts);
	for (size_t i = 0; i < s->n_starts; i++)
		if (!n || s->starts[n - 1] != s->starts[i])
			s->starts[n++] = s->starts[i];
	s->n_starts = n;
}

/* An architecture that the program does not know. */
static void add_unknown_arch(struct shrink *s)
{
	uint32_t arch = 0;

	for (size_t i = 0; i < s->n_archs;)
		i = s->archs[i] == arch ? (arch++, 0) : i + 1;
	s->archs[s->n_archs] = arch;
}

static bool is_true(const struct sock_filter *f, uint32_t a)
{
	switch (BPF_OP(f->code)) {
	case BPF_JEQ:
		return a == f->k;
	case BPF_JGT:
		return a > f->k;
	default:
		return a >= f->k;
	}
}

static struct outcome answer(const struct sock_filter *v, uint32_t arch,
			     uint32_t nr)
{
	uint32_t a = 0;
	size_t pc = 0;

	for (;;) {
		const struct sock_filter *f = &v[pc];

		if (BPF_CLASS(f->code) == BPF_RET)
			return (struct outcome){ false, f->k };
		pc++;
		if (is_always(f))
			pc += f->k;
		else if (is_jump(f))
			pc += is_true(f, a) ? f->jt : f->jf;
		else if (f->k == offsetof(struct seccomp_data, nr))
			a = nr;
		else if (f->k == offsetof(struct seccomp_data, arch))
			a = arch;
		else
			return (struct outcome){ true, (uint32_t)pc - 1 };
	}
}

static bool is_same(struct outcome a, struct outcome b)
{
	return a.goes_on == b.goes_on && a.value == b.value;
}

/* The number of runs of @arch, in s->runs. */
static size_t find_runs(struct shrink *s, uint32_t arch)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_starts; i++) {
		struct outcome o = answer(s->old, arch, s->starts[i]);

		if (n && is_same(s->runs[n - 1].outcome, o))
			continue;
		s->runs[n++] =
			(struct run){ .from = s->starts[i], .outcome = o };
	}
	return n;
}

/* ------------------------------------------------------- building one -- */

static size_t put(struct builder *b, struct sock_filter f)
{
	if (b->n == b->room) {
		b->full = true;
		return b->n;
	}
	b->v[b->room - ++b->n] = f;
	return b->n;
}

static struct sock_filter at_label(const struct builder *b, size_t label)
{
	return b->v[b->room - label];
}

static size_t put_jump(struct builder *b, size_t label)
{
	return put(b, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JA,
						   (uint32_t)(b->n - label), 0,
						   0));
}

static size_t put_if(struct builder *b, uint16_t op, uint32_t k, size_t yes,
		     size_t no)
{
	if (b->n - yes > NEAR)
		yes = put_jump(b, yes);
	if (b->n - no > NEAR)
		no = put_jump(b, no);
	return put(b, (struct sock_filter)BPF_JUMP(BPF_JMP | op | BPF_K, k,
						   (uint8_t)(b->n - yes),
						   (uint8_t)(b->n - no)));
}

static size_t put_load(struct builder *b, uint32_t offset)
{
	return put(b, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						   offset));
}

static size_t put_outcome(struct shrink *s, struct outcome o)
{
	struct builder *b = &s->b;

	if (o.goes_on)
		return s->labels[o.value];
	for (size_t label = b->n; label && b->n - label < NEAR; label--) {
		struct sock_filter f = at_label(b, label);

		if (BPF_CLASS(f.code) == BPF_RET && f.k == o.value)
			return label;
	}
	return put(b, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, o.value));
}

/* What is reached once an argument was loaded, as it was. */
static void keep_from(struct shrink *s, size_t from)
{
	s->kept[from] = true;
	for (size_t pc = from; pc < s->n; pc++) {
		const struct sock_filter *f = &s->old[pc];

		if (!s->kept[pc] || BPF_CLASS(f->code) == BPF_RET)
			continue;
		if (is_always(f)) {
			s->kept[pc + 1 + f->k] = true;
		} else if (is_jump(f)) {
			s->kept[pc + 1 + f->jt] = true;
			s->kept[pc + 1 + f->jf] = true;
		} else {
			s->kept[pc + 1] = true;
		}
	}
}

/* In its order, with less in between: no jump gets longer. */
static void put_kept(struct shrink *s)
{
	struct builder *b = &s->b;

	for (size_t pc = s->n; pc-- > 0;) {
		struct sock_filter f = s->old[pc];

		if (!s->kept[pc])
			continue;
		if (is_always(&f)) {
			f.k = (uint32_t)(b->n - s->labels[pc + 1 + f.k]);
		} else if (is_jump(&f)) {
			f.jt = (uint8_t)(b->n - s->labels[pc + 1 + f.jt]);
			f.jf = (uint8_t)(b->n - s->labels[pc + 1 + f.jf]);
		}
		s->labels[pc] = put(b, f);
	}
}

/* Two neighbours become one, until there is one. */
static size_t put_search(struct shrink *s, size_t n)
{
	struct builder *b = &s->b;
	bool searches = n > 1;

	for (size_t i = 0; i < n; i++)
		s->runs[i].label = put_outcome(s, s->runs[i].outcome);
	while (n > 1) {
		size_t pairs = n / 2;

		for (size_t i = 0; i < pairs; i++) {
			const struct run *l = &s->runs[2 * i], *r = l + 1;

			s->runs[i] = (struct run){
				.from = l->from,
				.label = put_if(b, BPF_JGE, r->from, r->label,
						l->label),
			};
		}
		if (n % 2)
			s->runs[pairs] = s->runs[n - 1];
		n = pairs + n % 2;
	}
	return searches ? put_load(b, offsetof(struct seccomp_data, nr))
			: s->runs[0].label;
}

static void build(struct shrink *s)
{
	size_t trees[ARCHS_MAX + 1] = { 0 }, next;

	for (size_t i = 0; i <= s->n_archs; i++) {
		size_t n = find_runs(s, s->archs[i]);

		for (size_t j = 0; j < n; j++)
			if (s->runs[j].outcome.goes_on)
				keep_from(s, s->runs[j].outcome.value);
	}
	put_kept(s);
	for (size_t i = s->n_archs + 1; i-- > 0;)
		trees[i] = put_search(s, find_runs(s, s->archs[i]));
	next = trees[s->n_archs];
	if (!s->n_archs && next != s->b.n)
		(void)put_jump(&s->b, next);
	for (size_t i = s->n_archs; i-- > 0;)
		next = put_if(&s->b, BPF_JEQ, s->archs[i], trees[i], next);
	(void)put_load(&s->b, offsetof(struct seccomp_data, arch));
}

/* A filter is not trusted to a proof on paper. */
static bool answers_alike(const struct shrink *s)
{
	const struct sock_filter *new = s->b.v + s->b.room - s->b.n;

	for (size_t i = 0; i <= s->n_archs; i++) {
		for (size_t j = 0; j < s->n_starts; j++) {
			uint32_t nr = s->starts[j];
			struct outcome o = answer(s->old, s->archs[i], nr);

			if (o.goes_on)
				o.value =
					(uint32_t)(s->b.n - s->labels[o.value]);
			if (!is_same(o, answer(new, s->archs[i], nr)))
				return false;
		}
	}
	return true;
}

static int allocate(struct shrink *s)
{
	s->starts = calloc(2 * s->n + 1, sizeof(*s->starts));
	s->runs = calloc(2 * s->n + 1, sizeof(*s->runs));
	s->kept = calloc(s->n, sizeof(*s->kept));
	s->labels = calloc(s->n, sizeof(*s->labels));
	s->b.v = calloc(s->n, sizeof(*s->b.v));
	s->b.room = s->n;
	return s->starts && s->runs && s->kept && s->labels && s->b.v ? 0
								      : -ENOMEM;
}

int seccomp_shrink(struct sock_filter *insns, size_t *n_insns)
{
	auto_(shrink) struct shrink s = { .old = insns, .n = *n_insns };
	auto_free enum holds *before = calloc(s.n + 1, sizeof(*before));
	auto_free bool *seen = calloc(s.n + 1, sizeof(*seen));
	int r = allocate(&s);

	if (r < 0 || !before || !seen)
		return -ENOMEM;
	if (!understand(&s, before, seen))
		return 0;
	s.starts[s.n_starts++] = 0;
	sort_starts(&s);
	add_unknown_arch(&s);
	build(&s);
	if (s.b.full || s.b.n >= s.n || !answers_alike(&s))
		return 0;
	memcpy(insns, s.b.v + s.b.room - s.b.n, s.b.n * sizeof(*insns));
	*n_insns = s.b.n;
	return 0;
}
