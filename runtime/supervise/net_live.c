/*
 * What was taken away while the sandbox runs: rules for one process and what
 * descends from it, or for all others, within those of the request. Of a
 * process the last rules hold; what is taken from all stays taken, so there
 * every list that was given has to allow.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "kernel/pidfd.h"
#include "supervise/net_internal.h"

enum { LIVE_MAX = 1024, RULES_MAX = 4096, ANCESTORS_MAX = 64 };

struct entry {
	pid_t process; /* 0: all that have none of their own; several */
	uint64_t start_time;
	struct net_rules rules;
};

struct net_live {
	pthread_mutex_t lock;
	struct entry *v;
	size_t n;
	bool denies_all; /* there was no room for a list */
};

struct net_live *net_live_new(void)
{
	struct net_live *l = calloc(1, sizeof(*l));

	if (l && pthread_mutex_init(&l->lock, NULL)) {
		free(l);
		return NULL;
	}
	return l;
}

void net_live_free(struct net_live *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++)
		net_rules_done(&l->v[i].rules);
	(void)pthread_mutex_destroy(&l->lock);
	free(l->v);
	free(l);
}

static struct entry *find(struct net_live *l, pid_t process,
			  uint64_t start_time)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].process == process &&
		    l->v[i].start_time == start_time)
			return &l->v[i];
	return NULL;
}

/*
 * Of the process, or of the nearest of its ancestors that has any. Who its
 * parent was nobody knows of a process that init has adopted.
 */
static const struct net_rules *find_own(const struct net *n, pid_t process,
					bool *ret_is_adopted)
{
	struct net_live *l = n->live;
	struct proc_stat st;

	*ret_is_adopted = false;
	for (int i = 0; i < ANCESTORS_MAX && process > 1; i++) {
		const struct entry *e;

		if (proc_read_stat(process, &st) < 0)
			break;
		e = find(l, process, st.start_time);
		if (e)
			return &e->rules;
		if (n->init && st.ppid == n->init) {
			*ret_is_adopted = process != n->first;
			return NULL;
		}
		process = st.ppid;
	}
	/* One of them has gone just now, or there are too many. */
	*ret_is_adopted = process > 1;
	return NULL;
}

static bool may_everybody(const struct net_live *l, struct net_layers layers,
			  const struct net_dest *d)
{
	for (size_t i = 0; i < l->n; i++) {
		layers.process = l->v[i].process ? &l->v[i].rules : NULL;
		if (layers.process && !net_decide(&layers, d).allowed)
			return false;
	}
	return true;
}

static bool may_all(const struct net_live *l, struct net_layers layers,
		    const struct net_dest *d)
{
	for (size_t i = 0; i < l->n; i++) {
		layers.live = l->v[i].process ? NULL : &l->v[i].rules;
		if (layers.live && !net_decide(&layers, d).allowed)
			return false;
	}
	return !l->denies_all;
}

struct net_verdict net_live_decide(struct net *n, struct call *c,
				   const struct net_dest *d)
{
	struct net_live *l = n->live;
	struct net_layers layers = n->layers;
	struct net_verdict v = net_decide(&layers, d);
	bool is_adopted = false, may = true;

	(void)pthread_mutex_lock(&l->lock);
	if (l->n || l->denies_all)
		layers.process = find_own(n, call_tgid(c), &is_adopted);
	if (layers.process)
		may = net_decide(&layers, d).allowed;
	else
		may = may_all(l, layers, d) &&
		      (!is_adopted || may_everybody(l, layers, d));
	/* Never more than the request allows. */
	if (!may)
		v = (struct net_verdict){ false, NET_RULE_LIVE, -1 };
	(void)pthread_mutex_unlock(&l->lock);
	return v;
}

static int parse(const char *const *rules, size_t n, struct net_rules *ret,
		 struct error *err)
{
	struct net_list *l = &ret->connect;
	int r = 0;

	l->rules = calloc(n ? n : 1, sizeof(*l->rules));
	if (!l->rules)
		return error_set(err, ERR_SYSTEM, ENOMEM, "network rules");
	for (; r == 0 && l->n < n; l->n += r == 0)
		r = net_rule_parse(rules[l->n], NET_RULE_ADDRESS,
				   &l->rules[l->n], err);
	return r;
}

static void format(const struct net_rules *r, struct buf *ret)
{
	for (size_t i = 0; i < r->connect.n; i++) {
		net_rule_format(&r->connect.rules[i], NET_RULE_ADDRESS, ret);
		buf_add_char(ret, ' ');
	}
}

/* For all, with the same rules. */
static struct entry *find_same(struct net_live *l, const struct net_rules *r)
{
	auto_(buf) struct buf wanted = BUF_INIT;

	format(r, &wanted);
	for (size_t i = 0; i < l->n; i++) {
		auto_(buf) struct buf b = BUF_INIT;

		if (l->v[i].process)
			continue;
		format(&l->v[i].rules, &b);
		if (strcmp(buf_str(&b), buf_str(&wanted)) == 0)
			return &l->v[i];
	}
	return NULL;
}

static int set(struct net_live *l, pid_t process, uint64_t start_time,
	       struct net_rules *take)
{
	struct entry *e =
		process ? find(l, process, start_time) : find_same(l, take);

	if (!e) {
		struct entry *v =
			l->n == LIVE_MAX
				? NULL
				: reallocarray(l->v, l->n + 1, sizeof(*v));

		if (!v) {
			l->denies_all |= process == 0;
			return process ? -ENOSPC : 0;
		}
		l->v = v;
		e = &v[l->n++];
		*e = (struct entry){ process, start_time, { .ask.n = 0 } };
	}
	net_rules_done(&e->rules);
	e->rules = *take;
	*take = (struct net_rules){ .ask.n = 0 };
	return 0;
}

int net_restrict(struct net *n, pid_t process, const char *const *rules,
		 size_t n_rules, struct error *err)
{
	auto_(net_rules) struct net_rules r = { .ask.n = 0 };
	struct proc_stat st = { .start_time = 0 };
	int e = parse(rules, n_rules, &r, err);

	if (e < 0)
		return e;
	if (process && proc_read_stat(process, &st) < 0)
		return error_say(err, ERR_NOT_FOUND, ESRCH,
				 "there is no process %d", (int)process);
	(void)pthread_mutex_lock(&n->live->lock);
	e = set(n->live, process, process ? st.start_time : 0, &r);
	(void)pthread_mutex_unlock(&n->live->lock);
	return e < 0 ? error_say(err, ERR_STATE, -e,
				 "too many processes have rules of their own")
		     : 0;
}

static int append(struct entry *e, struct net_rules *from)
{
	struct net_list *l = &e->rules.connect, *more = &from->connect;
	struct net_rule *v;

	if (l->n + more->n > RULES_MAX)
		return -ENOSPC;
	v = reallocarray(l->rules, l->n + more->n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	l->rules = v;
	for (size_t i = 0; i < more->n; i++)
		v[l->n++] = more->rules[i];
	/* They have moved. */
	more->n = 0;
	return 0;
}

int net_grant(struct net *n, pid_t process, const char *const *rules,
	      size_t n_rules, struct error *err)
{
	auto_(net_rules) struct net_rules r = { .ask.n = 0 };
	struct proc_stat st;
	struct entry *e;
	int k = parse(rules, n_rules, &r, err);

	if (k < 0)
		return k;
	if (process <= 0 || proc_read_stat(process, &st) < 0)
		return error_say(err, ERR_NOT_FOUND, ESRCH,
				 "there is no process %d", (int)process);
	(void)pthread_mutex_lock(&n->live->lock);
	e = find(n->live, process, st.start_time);
	k = e ? append(e, &r) : 0;
	(void)pthread_mutex_unlock(&n->live->lock);
	return k < 0 ? error_say(err, ERR_STATE, -k,
				 "process %d has too many rules", (int)process)
		     : 0;
}

static void write_entry(const struct entry *e, struct json_out *o)
{
	const struct net_list *l = &e->rules.connect;

	json_out_object(o);
	json_out_key(o, "pid");
	if (e->process)
		json_out_int(o, e->process);
	else
		json_out_null(o);
	json_out_key(o, "allow");
	json_out_array(o);
	for (size_t i = 0; i < l->n; i++) {
		auto_(buf) struct buf b = BUF_INIT;

		net_rule_format(&l->rules[i], NET_RULE_ADDRESS, &b);
		json_out_bytes(o, buf_str(&b), b.len);
	}
	json_out_array_end(o);
	json_out_object_end(o);
}

void net_restrictions_json(struct net *n, struct json_out *o)
{
	json_out_array(o);
	(void)pthread_mutex_lock(&n->live->lock);
	for (size_t i = 0; i < n->live->n; i++)
		write_entry(&n->live->v[i], o);
	(void)pthread_mutex_unlock(&n->live->lock);
	json_out_array_end(o);
}
