/*
 * What a host command sees: the system read-only, private /tmp and home, the
 * directory it works in, and nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "policy/syscalls.h"
#include "sandbox/host.h"

/* clang-format off */

/* Read-only without a -r: programs, libraries, configuration. */
const char *const host_system_paths[] = {
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc",
	"/opt", "/nix", "/snap", "/var/lib/dpkg", "/var/lib/alternatives", NULL,
};

/* Read-only in the private home: what tools installed or need to find. */
static const char *const home_paths[] = {
	".cargo", ".rustup", ".nvm", ".pyenv", ".rbenv", ".sdkman", ".local",
	".gitconfig", ".config/git", ".bashrc", ".profile", ".vimrc",
	"go", "go/pkg", ".cache/pip", ".npm", ".m2", ".gradle",
};

/*
 * Of these the caches: what downloads something writes it there, and fails if
 * it cannot. Not all of go, where sources may be, of which changes must not be
 * lost without a word.
 */
static const char *const home_caches[] = {
	".cargo", "go/pkg", ".cache/pip", ".npm", ".m2", ".gradle",
};

/* What procfs tells of the machine and of other users. */
static const char *const proc_paths[] = {
	"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys",
	"/proc/key-users", "/proc/kpagecgroup", "/proc/kpagecount",
	"/proc/kpageflags", "/proc/latency_stats", "/proc/sched_debug",
	"/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
};

/* Never readable, wherever they show up. Patterns of glob(3). */
static const char *const secret_paths[] = {
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-",
	"/etc/sudoers", "/etc/sudoers.d", "/etc/ssh/ssh_host_*_key",
	"/etc/ssl/private", "/etc/krb5.keytab", "/etc/security/opasswd",
	"/etc/wireguard", "/etc/openvpn", "/etc/ipsec.secrets",
	"/etc/ipsec.d/private", "/etc/ppp/*-secrets", "/etc/letsencrypt",
	"/etc/NetworkManager/system-connections", "/etc/kubernetes",
};
static const char *const home_secrets[] = {
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc",
	".git-credentials", ".config/gcloud", ".config/gh", ".password-store",
	".mozilla", ".cargo/credentials.toml", ".cargo/credentials", ".npmrc",
	".pypirc", ".local/share/keyrings", ".m2/settings.xml",
	".m2/settings-security.xml", ".gradle/gradle.properties",
	".terraform.d", ".terraformrc", ".vault-token", ".pgpass", ".my.cnf",
	".config/containers/auth.json", ".config/rclone", ".config/sops",
	".config/google-chrome", ".config/chromium", ".config/hub",
};
/* clang-format on */

struct mount_row {
	const char *destination, *type, *source, *options;
};

static void add_options(struct json_out *o, const char *options)
{
	auto_free char *copy = strdup(options);
	char *save = NULL;

	json_out_key(o, "options");
	json_out_array(o);
	for (char *p = copy ? strtok_r(copy, ",", &save) : NULL; p;
	     p = strtok_r(NULL, ",", &save))
		json_out_str(o, p);
	json_out_array_end(o);
}

/*
 * JSON is UTF-8, but paths are bytes: they are kept beside it, in their order.
 */
struct view {
	struct json_out *json;
	struct spec_strings *bytes;
	bool failed;
};

static void keep(struct view *o, const char *path)
{
	o->failed |= spec_strings_add(o->bytes, path) < 0;
}

static void add_mount(struct view *o, const struct mount_row *m)
{
	keep(o, m->destination);
	keep(o, m->source);
	json_out_object(o->json);
	json_out_str_member(o->json, "destination", m->destination);
	json_out_str_member(o->json, "type", m->type);
	json_out_str_member(o->json, "source", m->source);
	add_options(o->json, m->options);
	json_out_object_end(o->json);
}

static void add_bind_as(struct view *o, const char *path, const char *inside,
			bool read_only, const char *options)
{
	struct mount_row m = {
		.destination = inside,
		.type = "bind",
		.source = path,
		.options = options,
	};
	struct stat st;

	/* A link of the merged /usr is copied; a device was asked for. */
	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
		m.options = "rbind,copy-symlink";
	else if (path_is_under(path, "/dev"))
		m.options = read_only ? "rbind,rro,rnosuid" : "rbind,rnosuid";
	add_mount(o, &m);
}

static void add_bind(struct view *o, const char *path, const char *inside,
		     bool read_only)
{
	/* r: submounts too. */
	add_bind_as(o, path, inside, read_only,
		    read_only ? "rbind,rro,rnosuid,rnodev"
			      : "rbind,rnosuid,rnodev");
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* Files there are memory: where no controller limits it, half, as usual. */
static void add_tmpfs(const struct host_context *h, struct view *o,
		      const struct mount_row *row)
{
	struct mount_row m = *row;
	char options[128];

	if (h->request->memory_bytes && h->traps & TRAP_MEMORY) {
		(void)snprintf(
			options, sizeof(options), "%s,size=%llu", row->options,
			(unsigned long long)h->request->memory_bytes / 2);
		m.options = options;
	}
	add_mount(o, &m);
}

/*
 * Mounts that every sandbox has, before anything of the host. Who asks to see
 * the whole host (-r /) sees /var/tmp and the home, too.
 */
static void add_private(const struct host_context *h, bool whole,
			struct view *o)
{
	/* clang-format off */
	const struct mount_row rows[] = {
		{ "/proc", "proc", "proc", "nosuid,noexec,nodev" },
		{ "/dev", "tmpfs", "tmpfs", "nosuid,noexec,strictatime,mode=755,size=64k" },
		{ "/dev/pts", "devpts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620" },
	};
	const struct mount_row run = { "/run", "tmpfs", "tmpfs", "nosuid,nodev,mode=755" };
	const struct mount_row shm = { "/dev/shm", "tmpfs", "shm", "nosuid,noexec,nodev,mode=1777" };
	const struct mount_row tmp = { "/tmp", "tmpfs", "tmpfs", "nosuid,nodev,mode=1777" };
	const struct mount_row var_tmp = { "/var/tmp", "tmpfs", "tmpfs", "nosuid,nodev,mode=1777" };
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		add_mount(o, &rows[i]);
	add_tmpfs(h, o, &run);
	add_tmpfs(h, o, &shm);
	add_tmpfs(h, o, &tmp);
	if (whole)
		return;
	add_tmpfs(h, o, &var_tmp);
	if (h->home) {
		const struct mount_row m = { h->home, "tmpfs", "tmpfs",
					     "nosuid,nodev,mode=755" };

		add_tmpfs(h, o, &m);
	}
}

static int add_system(host_path_fn *add, void *data)
{
	int n = 0;

	for (size_t i = 0; n == 0 && host_system_paths[i]; i++) {
		struct stat st;

		if (lstat(host_system_paths[i], &st) == 0)
			n = add(data, host_system_paths[i]);
	}
	return n;
}

static int add_home(const struct host_context *h, host_path_fn *add, void *data)
{
	int n = 0;

	for (size_t i = 0; n == 0 && h->home && i < ARRAY_LEN(home_paths);
	     i++) {
		auto_free char *path = path_join(h->home, home_paths[i]);

		if (path && exists(path))
			n = add(data, path);
	}
	return n;
}

/* True if @entry is one of the entries in the first @n bytes of @path. */
static bool is_listed_before(const char *path, const char *entry, size_t n)
{
	size_t len = strlen(entry);

	for (const char *at = path; at < path + n; at += strcspn(at, ":") + 1)
		if (strcspn(at, ":") == len && strncmp(at, entry, len) == 0)
			return true;
	return false;
}

static bool is_covered(const struct host_context *h, const char *path)
{
	for (size_t i = 0; host_system_paths[i]; i++)
		if (path_is_under(path, host_system_paths[i]))
			return true;
	for (size_t i = 0; h->home && i < ARRAY_LEN(home_paths); i++) {
		auto_free char *at = path_join(h->home, home_paths[i]);

		if (!at || path_is_under(path, at))
			return true;
	}
	for (size_t i = 0; i < h->workdirs.n; i++)
		if (path_is_under(path, h->workdirs.v[i]))
			return true;
	return false;
}

/* Programs outside of the usual places that PATH leads to. */
static int add_path_entries(const struct host_context *h, host_path_fn *add,
			    void *data)
{
	const char *path = getenv("PATH");
	auto_free char *copy = path ? strdup(path) : NULL;
	char *save = NULL;
	int n = 0;

	for (char *p = copy ? strtok_r(copy, ":", &save) : NULL; p && n == 0;
	     p = strtok_r(NULL, ":", &save))
		if (p[0] == '/' && exists(p) && !is_covered(h, p) &&
		    !is_listed_before(path, p, (size_t)(p - copy)))
			n = add(data, p);
	return n;
}

int host_each_readable(const struct host_context *h, host_path_fn *add,
		       void *data)
{
	int n = add_system(add, data);

	if (n == 0)
		n = add_home(h, add, data);
	return n == 0 ? add_path_entries(h, add, data) : n;
}

/*
 * Only where something can be downloaded, for it takes a fifth of the time of a
 * start. Files there are memory, which TRAP_MEMORY would not count.
 */
static bool is_scratch(const struct host_context *h, const char *path)
{
	const char *below = h->home && path_is_under(path, h->home)
				    ? path_below(path, h->home)
				    : "";

	for (size_t i = 0; i < ARRAY_LEN(home_caches); i++)
		if (*below && strcmp(below + 1, home_caches[i]) == 0)
			return h->shared_network && !(h->traps & TRAP_MEMORY);
	return false;
}

struct readable {
	const struct host_context *h;
	struct view *view;
};

static int bind_readable(void *data, const char *path)
{
	const struct readable *r = data;

	if (is_scratch(r->h, path))
		add_bind_as(r->view, path, path, true,
			    "rbind,scratch,rnosuid,rnodev");
	else
		add_bind(r->view, path, path, true);
	return 0;
}

/* "/" cannot be mounted on: what lies in @root is mounted one by one. */
static int add_whole_root(struct view *o, const char *root, bool read_only,
			  struct error *err)
{
	static const char *const never[] = { ".",   "..",  "proc",	"dev",
					     "tmp", "run", "lost+found" };
	auto_dir DIR *dir = opendir(root);

	if (!dir)
		return error_set(err, ERR_SYSTEM, errno, "cannot read '%s'",
				 root);
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		auto_free char *path = path_join(root, e->d_name);
		char inside[NAME_MAX + 2];
		bool skip = false;

		for (size_t i = 0; i < ARRAY_LEN(never); i++)
			skip |= strcmp(e->d_name, never[i]) == 0;
		(void)snprintf(inside, sizeof(inside), "/%s", e->d_name);
		o->failed |= !path;
		if (!skip && path)
			add_bind(o, path, inside, read_only);
	}
	return 0;
}

/* The sandbox has its own, whatever is asked for: the host's would show what
 * runs there. */
static bool is_own_proc(const char *path)
{
	return strcmp(path, "/proc") == 0;
}

static int add_listed(const struct spec_strings *list, const char *flag,
		      bool read_only, struct view *o, struct error *err)
{
	for (size_t i = 0; i < list->n; i++) {
		auto_free char *real = realpath(list->v[i], NULL);
		struct stat st;

		if (!real) {
			(void)error_set(err, ERR_USAGE, errno, "%s '%s'", flag,
					list->v[i]);
			return error_code(err);
		}
		if (strcmp(real, "/") == 0) {
			int r = add_whole_root(o, "/", read_only, err);

			if (r < 0)
				return r;
			continue;
		}
		if (is_own_proc(real))
			continue;
		add_bind(o, real, real, read_only);
		/* -r /lib64 of a merged /usr: the link is there as well. */
		if (list->v[i][0] == '/' && lstat(list->v[i], &st) == 0 &&
		    S_ISLNK(st.st_mode))
			add_bind(o, list->v[i], list->v[i], read_only);
	}
	return 0;
}

static bool is_among(const struct spec_strings *list, const char *path)
{
	for (size_t i = 0; i < list->n; i++)
		if (path_is_under(path, list->v[i]))
			return true;
	return false;
}

/*
 * -r /usr of a merged one: programs name their loader and their interpreter by
 * the links, /lib64/... and /bin/sh. A name that is asked for is there already,
 * or has something mounted on it.
 */
static void add_links(const struct request *r, struct view *o)
{
	for (size_t i = 0; host_system_paths[i]; i++) {
		const char *path = host_system_paths[i];
		auto_free char *real = NULL;
		bool taken =
			is_among(&r->read, path) || is_among(&r->write, path);
		struct stat st;

		for (size_t k = 0; k < r->n_mounts; k++)
			taken |= path_is_under(r->mounts[k].inside, path);
		if (taken || lstat(path, &st) < 0 || !S_ISLNK(st.st_mode))
			continue;
		real = realpath(path, NULL);
		if (real &&
		    (is_among(&r->read, real) || is_among(&r->write, real)))
			add_bind(o, path, path, true);
	}
}

static int add_asked_mounts(const struct host_context *h, struct view *o,
			    struct error *err)
{
	const struct request *r = h->request;

	for (size_t i = 0; i < r->n_mounts; i++) {
		auto_free char *real = realpath(r->mounts[i].host, NULL);

		if (!real)
			return error_set(err, ERR_USAGE, errno,
					 "--fs-mount '%s'", r->mounts[i].host);
		if (r->mounts[i].inside[0] != '/')
			return error_say(err, ERR_USAGE, EINVAL,
					 "--fs-mount: '%s' is not absolute",
					 r->mounts[i].inside);
		add_bind(o, real, r->mounts[i].inside, r->mounts[i].read_only);
	}
	return 0;
}

/*
 * Sockets that rules name are there, and can be connected to: for that a mount
 * may be read-only, which keeps their modes and owners.
 */
static int add_sockets(const struct host_context *h, struct view *o,
		       struct error *err)
{
	const struct net_list *l = &h->net.connect;

	for (size_t i = 0; !l->is_deny && i < l->n; i++) {
		const struct net_rule *r = &l->rules[i];
		struct stat st;

		if (r->target != NET_TARGET_PATH)
			continue;
		if (stat(r->name, &st) < 0)
			return error_set(err, ERR_USAGE, errno,
					 "--net-allow unix:%s", r->name);
		if (!S_ISSOCK(st.st_mode))
			return error_say(err, ERR_USAGE, ENOTSOCK,
					 "--net-allow: '%s' is no socket",
					 r->name);
		add_bind(o, r->name, r->name, true);
	}
	return 0;
}

int host_find_inside(const struct host_context *h, const char *flag,
		     const char *path, char ret[PATH_MAX], struct error *err)
{
	auto_close int root_fd =
		open(h->chroot, O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_close int fd = -1;
	int r;

	if (root_fd < 0)
		return error_set(err, ERR_USAGE, errno, "--chroot '%s'",
				 h->chroot);
	fd = fd_open_in_root(root_fd, path, O_PATH, 0);
	r = fd < 0 ? fd : fd_path(fd, ret);
	if (r == 0 && !path_is_under(ret, h->chroot))
		r = -ENOENT;
	return r < 0 ? error_set(err, ERR_USAGE, -r,
				 "%s '%s' inside of --chroot '%s'", flag, path,
				 h->chroot)
		     : 0;
}

/* What is inside, but not of the chroot: a kernel's, or a mount of its own. */
static bool is_mounted(const struct request *r, const char *inside)
{
	for (size_t i = 0; i < r->n_mounts; i++)
		if (path_is_under(inside, r->mounts[i].inside))
			return true;
	return is_own_proc(inside) || strcmp(inside, "/dev") == 0;
}

/* Paths are inside. */
static int add_inside(const struct host_context *h,
		      const struct spec_strings *list, const char *flag,
		      bool read_only, struct view *o, struct error *err)
{
	for (size_t i = 0; i < list->n; i++) {
		auto_free char *plain = path_normalize(list->v[i]);
		char real[PATH_MAX];
		int r;

		o->failed |= !plain;
		if (!plain || is_mounted(h->request, plain))
			continue;
		r = host_find_inside(h, flag, list->v[i], real, err);
		if (r < 0)
			return r;
		/* "/" is said by root.readonly, and by there being no branch.
		 */
		if (strcmp(real, h->chroot) != 0)
			add_bind(o, real, list->v[i], read_only);
	}
	return 0;
}

/* A root of its own: what a kernel has to provide, and nothing of the host. */
static void add_kernels(const struct host_context *h, struct view *o)
{
	/* clang-format off */
	const struct mount_row rows[] = {
		{ "/proc", "proc", "proc", "nosuid,noexec,nodev" },
		{ "/dev", "tmpfs", "tmpfs", "nosuid,noexec,strictatime,mode=755,size=64k" },
		{ "/dev/pts", "devpts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620" },
	};
	const struct mount_row shm = { "/dev/shm", "tmpfs", "shm", "nosuid,noexec,nodev,mode=1777" };
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		add_mount(o, &rows[i]);
	add_tmpfs(h, o, &shm);
}

/* The workdirs in it lie over what is read-only, as on the host. */
static int add_chroot(const struct host_context *h, struct view *o,
		      struct error *err)
{
	const struct request *r = h->request;
	int n = 0;

	if (host_root_is_chroot(h)) {
		add_kernels(h, o);
	} else {
		n = add_whole_root(o, h->chroot, !host_names_root(&r->write),
				   err);
		add_private(h, true, o);
	}
	if (n == 0)
		n = add_inside(h, &r->read, "-r", true, o, err);
	return n < 0 ? n : add_inside(h, &r->write, "-w", false, o, err);
}

static int add_host(const struct host_context *h, struct view *o,
		    struct error *err)
{
	const struct request *r = h->request;
	bool whole = host_names_root(&r->read);
	int n = 0;

	/* The host's root goes below the private mounts. */
	if (whole)
		n = add_whole_root(o, "/", true, err);
	add_private(h, whole, o);
	if (!whole && !r->read.n)
		(void)host_each_readable(h, bind_readable,
					 &(struct readable){ h, o });
	if (n == 0 && !whole)
		n = add_listed(&r->read, "-r", true, o, err);
	if (n == 0)
		n = add_listed(&r->write, "-w", false, o, err);
	if (n == 0 && !whole && r->read.n)
		add_links(r, o);
	return n;
}

int host_view_mounts(struct host_context *h, struct json_out *json,
		     struct error *err)
{
	struct view view = { json, &h->mount_bytes, false }, *o = &view;
	int n;

	json_out_array(json);
	if (h->notify) {
		json_out_array_end(json);
		return 0;
	}
	n = h->chroot ? add_chroot(h, o, err) : add_host(h, o, err);
	if (n == 0)
		n = add_asked_mounts(h, o, err);
	if (n == 0)
		n = add_sockets(h, o, err);
	json_out_array_end(json);
	if (n == 0 && view.failed)
		n = error_set(err, ERR_SYSTEM, ENOMEM, "mounts");
	return n;
}

static void mask(struct view *o, const char *path)
{
	keep(o, path);
	json_out_str(o->json, path);
}

/* @real also where an --fs-mount shows what it lies in. */
static void mask_in_mounts(const struct request *r, const char *real,
			   struct view *o)
{
	for (size_t i = 0; i < r->n_mounts; i++) {
		auto_free char *host = realpath(r->mounts[i].host, NULL);
		auto_free char *inside = NULL;

		if (!host || !path_is_under(real, host))
			continue;
		inside = path_join(r->mounts[i].inside, path_below(real, host));
		if (inside)
			mask(o, inside);
	}
}

/*
 * Under every name that it may have inside: HOME may lead through links, which
 * the workdir and what is mounted never do.
 */
static void add_mask(const struct host_context *h, const char *path,
		     struct view *o)
{
	auto_free char *real = realpath(path, NULL);

	mask(o, path);
	if (!real)
		return;
	if (strcmp(real, path) != 0)
		mask(o, real);
	mask_in_mounts(h->request, real, o);
}

static int add_matches(const char *pattern, host_path_fn *add, void *data)
{
	glob_t g = { 0 };
	int n = 0;

	if (glob(pattern, GLOB_NOSORT, NULL, &g) == 0)
		for (size_t i = 0; n == 0 && i < g.gl_pathc; i++)
			n = add(data, g.gl_pathv[i]);
	globfree(&g);
	return n;
}

static int each_builtin(const struct host_context *h, host_path_fn *add,
			void *data)
{
	int n = 0;

	for (size_t i = 0; n == 0 && i < ARRAY_LEN(secret_paths); i++)
		n = add_matches(secret_paths[i], add, data);
	for (size_t i = 0; n == 0 && h->home && i < ARRAY_LEN(home_secrets);
	     i++) {
		auto_free char *path = path_join(h->home, home_secrets[i]);

		if (path && exists(path))
			n = add(data, path);
	}
	return n;
}

static int each_denied(const struct request *r, host_path_fn *add, void *data)
{
	auto_free char *here = realpath(".", NULL);
	int n = 0;

	for (size_t i = 0; n == 0 && i < r->deny.n; i++) {
		auto_free char *real = realpath(r->deny.v[i], NULL);
		auto_free char *full = NULL;

		/* One that does not exist, or not yet. */
		if (!real && here && r->deny.v[i][0] != '/')
			full = path_join(here, r->deny.v[i]);
		n = add(data, real ? real : full ? full : r->deny.v[i]);
	}
	return n;
}

int host_each_secret(const struct host_context *h, host_path_fn *add,
		     void *data)
{
	int n = each_builtin(h, add, data);

	return n == 0 ? each_denied(h->request, add, data) : n;
}

struct masking {
	const struct host_context *h;
	struct view *view;
};

static int mask_secret(void *data, const char *path)
{
	const struct masking *m = data;

	add_mask(m->h, path, m->view);
	return 0;
}

/* Those that refuse to be opened come last. */
static void add_masks(struct host_context *h, struct view *o)
{
	const struct request *r = h->request;
	struct masking m = { h, o };
	size_t first;

	/* Nothing is mounted in tier C: host_paths.c. */
	if (h->notify)
		return;
	for (size_t i = 0; i < ARRAY_LEN(proc_paths); i++)
		mask(o, proc_paths[i]);
	if (!h->chroot)
		(void)each_builtin(h, mask_secret, &m);
	first = h->mask_bytes.n;
	for (size_t i = 0; h->chroot && i < r->deny.n; i++)
		mask(o, r->deny.v[i]);
	if (!h->chroot)
		(void)each_denied(r, mask_secret, &m);
	h->n_refusing = h->mask_bytes.n - first;
}

int host_view_masks(struct host_context *h, struct json_out *json,
		    struct error *err)
{
	struct view view = { json, &h->mask_bytes, false };

	json_out_array(json);
	add_masks(h, &view);
	json_out_array_end(json);
	return view.failed ? error_set(err, ERR_SYSTEM, ENOMEM, "masks") : 0;
}
