/*
 * The network of a host command: its rules with addresses pinned, and the hosts
 * file that has the same addresses, so that what is resolved inside is what may
 * be connected to.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* A file of its own in memory, or where there is none in /tmp. */
static int write_hosts(struct host_context *h, const struct buf *text,
		       struct error *err)
{
	static const char *const places[] = { "/dev/shm", "/tmp" };
	auto_close int fd = -1;
	int r;

	for (size_t i = 0; fd < 0 && i < ARRAY_LEN(places); i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "%s/sandlock-hosts.XXXXXX",
			       places[i]);
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			h->hosts_path = strdup(path);
		if (fd >= 0 && !h->hosts_path) {
			(void)unlink(path);
			return error_set(err, ERR_SYSTEM, ENOMEM, "/etc/hosts");
		}
	}
	if (fd < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make a file for /etc/hosts");
	r = fd_write_full(fd, text->data, text->len);
	if (r == 0 && fchmod(fd, 0644) < 0)
		r = -errno;
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "cannot write '%s'",
				 h->hosts_path)
		     : 0;
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
	return write_hosts(h, pinned, err);
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

int host_network(struct host_context *h, struct error *err)
{
	auto_(buf) struct buf pinned = BUF_INIT;
	int r = net_rules_read(h->request, &h->net, err);

	h->shared_network = net_is_shared(h->request);
	if (r == 0 && h->shared_network)
		r = check_io_uring(h->request, err);
	if (r == 0)
		r = pin_all(&h->net, &pinned, err);
	if (r == 0 && pinned.len)
		r = make_hosts(h, &pinned, err);
	return r;
}

void host_forget_hosts(char **path)
{
	if (*path)
		(void)unlink(*path);
	free(*path);
	*path = NULL;
}
