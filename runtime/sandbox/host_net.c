/*
 * The network of a host command: its rules with addresses pinned, and the hosts
 * file that has the same addresses, so that what is resolved inside is what may
 * be connected to.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "kernel/resolve.h"
#include "sandbox/host.h"

enum { HOSTS_MAX = 1024 * 1024 };

static int pin(struct net_rules *rules, const char *name, struct buf *hosts,
	       struct error *err)
{
	struct net_ip ips[RESOLVE_MAX];
	size_t n;
	int r = resolve_host(name, ips, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		char text[NET_IP_TEXT];

		buf_printf(hosts, "%s\t%s\n", net_ip_format(&ips[i], text),
			   name);
	}
	if (net_rules_pin(rules, name, ips, n) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "network rules");
	return 0;
}

/* A name that several rules have is pinned in all of them at once. */
static int pin_all(struct net_rules *rules, struct buf *hosts,
		   struct error *err)
{
	const struct net_list *lists[] = { &rules->connect, &rules->ask };
	int r = 0;

	for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
		const struct net_list *l = lists[k];

		for (size_t i = 0; r == 0 && i < l->n; i++)
			if (l->rules[i].target == NET_TARGET_HOST &&
			    !l->rules[i].n_prefixes)
				r = pin(rules, l->rules[i].name, hosts, err);
	}
	return r;
}

/* Ours come first, and so win; the host's own are still there, but not in a
 * root of its own. */
static int make_hosts(struct host_context *h, struct buf *pinned,
		      struct error *err)
{
	auto_(buf) struct buf own = BUF_INIT;
	int r = h->request->chroot
			? -ENOENT
			: fd_read_file(AT_FDCWD, "/etc/hosts", HOSTS_MAX, &own);

	if (r < 0)
		buf_add_str(&own, "127.0.0.1\tlocalhost\n::1\tlocalhost\n");
	buf_add(pinned, own.data, own.len);
	if (buf_failed(pinned))
		return error_set(err, ERR_SYSTEM, ENOMEM, "/etc/hosts");
	h->hosts = strdup(buf_str(pinned));
	return h->hosts ? 0 : error_set(err, ERR_SYSTEM, ENOMEM, "/etc/hosts");
}

/* Its calls are made by the kernel where no filter sees them. */
static int check_io_uring(const struct request *q, struct error *err)
{
	for (size_t i = 0; i < q->extra_allow.n; i++)
		if (strcmp(q->extra_allow.v[i], "io_uring") == 0)
			return error_say(err, ERR_USAGE, EINVAL,
					 "network rules cannot hold with "
					 "--extra-allow-syscall io_uring");
	return 0;
}

int host_read_rules(const struct host_context *h, struct net_rules *ret,
		    struct error *err)
{
	int r = net_rules_read(h->request, ret, err);

	return r == 0 && h->shared_network ? check_io_uring(h->request, err)
					   : r;
}

int host_network(struct host_context *h, struct error *err)
{
	auto_(buf) struct buf pinned = BUF_INIT;
	int r;

	/* Without a network namespace there is always a rule: that nothing is
	 * allowed. */
	h->shared_network = h->notify || net_is_shared(h->request);
	r = host_read_rules(h, &h->net, err);
	if (r == 0)
		r = pin_all(&h->net, &pinned, err);
	if (r == 0 && pinned.len)
		r = make_hosts(h, &pinned, err);
	return r;
}
