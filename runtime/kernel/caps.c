#include "kernel/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/uapi.h"

enum { CAP_BITS = 64 };

struct kernel_caps {
	struct __user_cap_header_struct hdr;
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
};

int caps_last(void)
{
	int known = 0, unknown = CAP_BITS;

	/* PR_CAPBSET_READ is EINVAL above the last one. */
	while (unknown - known > 1) {
		int middle = (known + unknown) / 2;

		if (prctl(PR_CAPBSET_READ, middle, 0, 0, 0) < 0)
			unknown = middle;
		else
			known = middle;
	}
	return known;
}

static const char *name_of(int cap)
{
	const char *name = capset_name(cap);

	return name ? name : "a capability";
}

int caps_apply_bounding(const struct capset *c, struct error *err)
{
	int last = caps_last();

	for (int i = 0; i <= last; i++) {
		if (c->bounding & (UINT64_C(1) << i))
			continue;
		if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) == 0)
			continue;
		if (prctl(PR_CAPBSET_READ, i, 0, 0, 0) == 0)
			continue;
		return error_set(err, ERR_SYSTEM, EPERM,
				 "cannot drop '%s' from the bounding set",
				 name_of(i));
	}
	return 0;
}

static uint64_t join(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}

static int read_caps(struct kernel_caps *k)
{
	*k = (struct kernel_caps){
		.hdr = { .version = _LINUX_CAPABILITY_VERSION_3 },
	};
	return syscall(SYS_capget, &k->hdr, k->data) < 0 ? -errno : 0;
}

static uint64_t bounding_now(int last)
{
	uint64_t set = 0;

	for (int i = 0; i <= last; i++) {
		if (prctl(PR_CAPBSET_READ, i, 0, 0, 0) == 1)
			set |= UINT64_C(1) << i;
	}
	return set;
}

/* What of @want the kernel will let a process with @k have. */
static struct capset grantable(const struct capset *want,
			       const struct kernel_caps *k)
{
	uint64_t permitted = join(k->data[0].permitted, k->data[1].permitted);
	uint64_t inherited =
		join(k->data[0].inheritable, k->data[1].inheritable);
	struct capset got = { .permitted = want->permitted & permitted };

	got.effective = want->effective & got.permitted;
	if (want->inheritable & ~inherited)
		inherited |= permitted & bounding_now(caps_last());
	got.inheritable = want->inheritable & inherited;
	got.ambient = want->ambient & got.inheritable & got.permitted;
	return got;
}

static int set_ambient(uint64_t set, struct error *err)
{
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot clear the ambient capabilities");
	for (int i = 0; i < CAP_BITS; i++) {
		if (!(set & (UINT64_C(1) << i)))
			continue;
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0, 0) < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot raise ambient '%s'",
					 name_of(i));
	}
	return 0;
}

int caps_apply(const struct capset *c, struct error *err)
{
	struct kernel_caps k;
	struct capset got;
	int r = read_caps(&k);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot read the capabilities");
	got = grantable(c, &k);
	for (int i = 0; i < 2; i++) {
		k.data[i].effective = (uint32_t)(got.effective >> 32 * i);
		k.data[i].permitted = (uint32_t)(got.permitted >> 32 * i);
		k.data[i].inheritable = (uint32_t)(got.inheritable >> 32 * i);
	}
	if (syscall(SYS_capset, &k.hdr, k.data) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot set the capabilities");
	return set_ambient(got.ambient, err);
}

static _Thread_local bool is_known;

void caps_forget(void)
{
	is_known = false;
}

/*
 * What a thread may have is read once. Should it have lost some of it by now
 * the kernel refuses the whole, and it is read again; it gains some only by
 * entering a user namespace.
 */
static int set_effective(uint64_t caps, bool again)
{
	static _Thread_local struct __user_cap_data_struct
		own[_LINUX_CAPABILITY_U32S_3];
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};

	if ((again || !is_known) && syscall(SYS_capget, &head, own) < 0)
		return -errno;
	is_known = true;
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		own[i].effective =
			own[i].permitted & (uint32_t)(caps >> 32 * i);
	return syscall(SYS_capset, &head, own) < 0 ? -errno : 0;
}

int caps_set_effective(uint64_t caps)
{
	int r = set_effective(caps, false);

	return r == -EPERM ? set_effective(caps, true) : r;
}

int caps_get_effective(uint64_t *ret)
{
	struct kernel_caps k;
	int r = read_caps(&k);

	if (r == 0)
		*ret = join(k.data[0].effective, k.data[1].effective);
	return r;
}

int caps_begin_all(uint64_t *ret_was)
{
	int r = getuid() == 0 ? caps_get_effective(ret_was) : 0;

	return r == 0 && getuid() == 0 ? caps_set_effective(UINT64_MAX) : r;
}

void caps_end_all(uint64_t was)
{
	if (getuid() == 0)
		(void)caps_set_effective(was);
}
