#include "kernel/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/uapi.h"
#include "spec/request.h"

/* The newest ABI whose rights are known here; later ones only add some. */
enum { ABI_KNOWN = 7 };

/* clang-format off */
static const uint64_t read_rights =
	LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
static const uint64_t write_rights =
	LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE;
static const uint64_t make_rights =
	LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
	LANDLOCK_ACCESS_FS_MAKE_CHAR  | LANDLOCK_ACCESS_FS_MAKE_DIR |
	LANDLOCK_ACCESS_FS_MAKE_REG   | LANDLOCK_ACCESS_FS_MAKE_SOCK |
	LANDLOCK_ACCESS_FS_MAKE_FIFO  | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
	LANDLOCK_ACCESS_FS_MAKE_SYM   | LANDLOCK_ACCESS_FS_REFER;
/* The rights that a rule for something else than a directory may have. */
static const uint64_t file_rights =
	LANDLOCK_ACCESS_FS_EXECUTE   | LANDLOCK_ACCESS_FS_READ_FILE |
	LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE |
	LANDLOCK_ACCESS_FS_IOCTL_DEV;
/* clang-format on */

/* What a ruleset handles. */
struct rights {
	uint64_t fs, net, scoped;
};

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
			   LANDLOCK_CREATE_RULESET_VERSION);

	/* ENOSYS: not built in; EOPNOTSUPP: not enabled at boot. */
	return abi > 0 ? (int)abi : 0;
}

static struct rights rights_of(int abi)
{
	struct rights r = { .fs = 0 };

	if (abi > ABI_KNOWN)
		abi = ABI_KNOWN;
	if (abi >= 1)
		r.fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
	if (abi >= 2)
		r.fs |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= 3)
		r.fs |= LANDLOCK_ACCESS_FS_TRUNCATE;
	if (abi >= 4)
		r.net = LANDLOCK_ACCESS_NET_BIND_TCP |
			LANDLOCK_ACCESS_NET_CONNECT_TCP;
	if (abi >= 5)
		r.fs |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
	if (abi >= 6)
		r.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET |
			   LANDLOCK_SCOPE_SIGNAL;
	return r;
}

unsigned int landlock_count_fs(int abi)
{
	return (unsigned int)__builtin_popcountll(rights_of(abi).fs);
}

unsigned int landlock_count_net(int abi)
{
	return (unsigned int)__builtin_popcountll(rights_of(abi).net);
}

unsigned int landlock_count_scopes(int abi)
{
	return (unsigned int)__builtin_popcountll(rights_of(abi).scoped);
}

static bool is_waived(uint32_t mask, enum protection p)
{
	return mask & UINT32_C(1) << p;
}

static int check_abi(int abi, uint32_t allow_degraded, uint32_t disabled,
		     struct error *err)
{
	for (int i = 0; i < PROTECT_COUNT; i++) {
		enum protection p = (enum protection)i;

		if (abi >= protection_abi(p) ||
		    is_waived(allow_degraded | disabled, p))
			continue;
		if (abi == 0)
			(void)error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
					"the protection '%s' needs Landlock "
					"ABI %d (Linux %s), this kernel has no "
					"Landlock enabled",
					protection_name(p), protection_abi(p),
					protection_kernel(p));
		else
			(void)error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
					"the protection '%s' needs Landlock "
					"ABI %d (Linux %s), this kernel has "
					"%d",
					protection_name(p), protection_abi(p),
					protection_kernel(p), abi);
		return error_hint(err, "--allow-degraded=%s runs without it",
				  protection_name(p));
	}
	return 0;
}

int landlock_check(uint32_t allow_degraded, uint32_t disabled,
		   struct error *err)
{
	return check_abi(landlock_abi(), allow_degraded, disabled, err);
}

/*
 * REFER stays even where it is disabled: not handled, the kernel refuses every
 * rename between directories.
 */
static void leave_out(struct rights *h, const struct landlock_rules *r)
{
	if (is_waived(r->disabled, PROTECT_FS_TRUNCATE))
		h->fs &= ~LANDLOCK_ACCESS_FS_TRUNCATE;
	if (is_waived(r->disabled, PROTECT_FS_IOCTL_DEV))
		h->fs &= ~LANDLOCK_ACCESS_FS_IOCTL_DEV;
	if (is_waived(r->disabled, PROTECT_NET_TCP))
		h->net = 0;
	if (r->any_bind)
		h->net &= ~LANDLOCK_ACCESS_NET_BIND_TCP;
	if (r->any_connect)
		h->net &= ~LANDLOCK_ACCESS_NET_CONNECT_TCP;
	if (is_waived(r->disabled, PROTECT_SIGNAL_SCOPE))
		h->scoped &= ~LANDLOCK_SCOPE_SIGNAL;
	if (is_waived(r->disabled, PROTECT_ABSTRACT_UNIX_SCOPE))
		h->scoped &= ~LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET;
}

/* An older kernel takes a longer structure if the rest of it is zero. */
static int make_ruleset(const struct rights *h, struct error *err)
{
	const struct uapi_landlock_ruleset_attr attr = {
		.handled_access_fs = h->fs,
		.handled_access_net = h->net,
		.scoped = h->scoped,
	};
	int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr),
			      0);

	/* The kernel sets O_CLOEXEC itself. */
	return fd < 0 ? error_set(err, ERR_SYSTEM, errno,
				  "cannot make a Landlock ruleset")
		      : fd;
}

static uint64_t kernel_rights(unsigned int access)
{
	uint64_t fs = 0;

	if (access & LANDLOCK_READ)
		fs |= read_rights;
	if (access & LANDLOCK_LIST)
		fs |= LANDLOCK_ACCESS_FS_READ_DIR;
	if (access & LANDLOCK_EXEC)
		fs |= LANDLOCK_ACCESS_FS_EXECUTE;
	if (access & LANDLOCK_WRITE)
		fs |= write_rights;
	if (access & LANDLOCK_MAKE)
		fs |= make_rights;
	if (access & LANDLOCK_IOCTL)
		fs |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
	return fs;
}

static const char *rule_name(const struct landlock_rule *r)
{
	return r->path ? r->path : "an open file";
}

static int add_path(int ruleset_fd, const struct landlock_rule *r,
		    uint64_t handled, struct error *err)
{
	auto_close int opened_fd = -1;
	struct uapi_landlock_path_beneath_attr attr = {
		.allowed_access = kernel_rights(r->access) & handled,
		.parent_fd = r->fd,
	};
	struct stat st;

	if (r->fd < 0) {
		opened_fd = open(r->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (opened_fd < 0 && r->optional &&
		    (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
			return 0;
		if (opened_fd < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot open '%s' for a Landlock rule",
					 r->path);
		attr.parent_fd = opened_fd;
	}
	if (fstat(attr.parent_fd, &st) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot stat '%s'",
				 rule_name(r));
	/* Nothing is ever opened as a link: such a rule would do nothing. */
	if (S_ISLNK(st.st_mode))
		return r->optional ? 0
				   : error_say(err, ERR_SYSTEM, ELOOP,
					       "'%s' is a symbolic link: no "
					       "Landlock rule can be for it",
					       rule_name(r));
	if (!S_ISDIR(st.st_mode))
		attr.allowed_access &= file_rights;
	if (!attr.allowed_access)
		return 0;
	if (syscall(SYS_landlock_add_rule, ruleset_fd,
		    UAPI_LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot add a Landlock rule for '%s'",
				 rule_name(r));
	return 0;
}

static int add_ports(int ruleset_fd, const uint16_t *ports, size_t n,
		     uint64_t right, struct error *err)
{
	for (size_t i = 0; right && i < n; i++) {
		const struct uapi_landlock_net_port_attr attr = {
			.allowed_access = right,
			.port = ports[i],
		};

		if (syscall(SYS_landlock_add_rule, ruleset_fd,
			    UAPI_LANDLOCK_RULE_NET_PORT, &attr, 0) < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot add a Landlock rule for port "
					 "%u",
					 ports[i]);
	}
	return 0;
}

int landlock_restrict(const struct landlock_rules *r, struct error *err)
{
	int abi = landlock_abi();
	struct rights handled = rights_of(abi);
	auto_close int fd = -1;
	int n = check_abi(abi, r->allow_degraded, r->disabled, err);

	if (n < 0 || abi == 0)
		return n;
	leave_out(&handled, r);
	fd = make_ruleset(&handled, err);
	if (fd < 0)
		return error_code(err);
	for (size_t i = 0; n == 0 && i < r->n_paths; i++)
		n = add_path(fd, &r->paths[i], handled.fs, err);
	if (n == 0)
		n = add_ports(fd, r->connect, r->n_connect,
			      handled.net & LANDLOCK_ACCESS_NET_CONNECT_TCP,
			      err);
	if (n == 0)
		n = add_ports(fd, r->bind, r->n_bind,
			      handled.net & LANDLOCK_ACCESS_NET_BIND_TCP, err);
	if (n < 0)
		return n;
	if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot restrict the process by Landlock");
	return 0;
}

int landlock_scope_signals(struct error *err)
{
	const struct rights h = { .scoped = LANDLOCK_SCOPE_SIGNAL };
	auto_close int fd = make_ruleset(&h, err);

	if (fd < 0)
		return error_code(err);
	if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot restrict signals by Landlock");
	return 0;
}
