/*
 * Kernel constants that the headers of the build host may lack. What the
 * running kernel can do is probed, never concluded from here.
 */
#ifndef SANDLOCK_BASE_UAPI_H
#define SANDLOCK_BASE_UAPI_H

#include <linux/close_range.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <linux/types.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

/* chmod: asm/unistd.h, since 6.6 */
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/*
 * landlock: linux/landlock.h. Rights by ABI: 1 all of the file rights below
 * but 2 REFER, 3 TRUNCATE, 5 IOCTL_DEV; 4 the network; 6 scopes; 7 log flags.
 */
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15)
#endif
#ifndef LANDLOCK_ACCESS_NET_BIND_TCP
#define LANDLOCK_ACCESS_NET_BIND_TCP (1ULL << 0)
#define LANDLOCK_ACCESS_NET_CONNECT_TCP (1ULL << 1)
#endif
#ifndef LANDLOCK_SCOPE_SIGNAL
#define LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define LANDLOCK_SCOPE_SIGNAL (1ULL << 1)
#endif
/* The structures under names of our own: those of old headers are shorter. */
struct uapi_landlock_ruleset_attr {
	__u64 handled_access_fs;
	__u64 handled_access_net; /* ABI 4 */
	__u64 scoped;		  /* ABI 6 */
};
struct uapi_landlock_path_beneath_attr {
	__u64 allowed_access;
	__s32 parent_fd;
} __attribute__((packed));
struct uapi_landlock_net_port_attr {
	__u64 allowed_access;
	__u64 port; /* host byte order */
};
enum { UAPI_LANDLOCK_RULE_PATH_BENEATH = 1, UAPI_LANDLOCK_RULE_NET_PORT };

/* memfd: linux/memfd.h, 6.3 */
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* memfd: linux/memfd.h, since 6.3 */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* memory policy: linux/mempolicy.h, since 6.9 */
#ifndef MPOL_WEIGHTED_INTERLEAVE
#define MPOL_WEIGHTED_INTERLEAVE 6
#endif

/* namespaces: linux/nsfs.h, 6.18; the kernel has had this number since 3.8 */
#ifndef USER_NS_INIT_INO
#define USER_NS_INIT_INO 0xEFFFFFFDU
#endif

/* namespaces: linux/nsfs.h, 6.11 */
#ifndef NS_GET_PID_FROM_PIDNS
#define NS_GET_PID_FROM_PIDNS _IOR(0xb7, 0x6, int)
#endif

/* pidfd: linux/pidfd.h, 6.9; O_EXCL */
#ifndef PIDFD_THREAD
#define PIDFD_THREAD 0200
#endif

/* pidfd: linux/pidfd.h, PIDFD_GET_INFO since 6.13, PIDFD_INFO_EXIT 6.15 */
#ifndef PIDFD_GET_INFO
#define PIDFD_INFO_EXIT (1UL << 3)
struct pidfd_info {
	__u64 mask;
	__u64 cgroupid;
	__u32 pid, tgid, ppid;
	__u32 ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	__s32 exit_code;
};
#define PIDFD_GET_INFO _IOWR(0xFF, 11, struct pidfd_info)
#endif

/* seccomp: linux/seccomp.h, 5.19 */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

/* seccomp: linux/seccomp.h, 5.14 */
#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND (1UL << 1)
#endif

/* seccomp: linux/seccomp.h, 6.6 */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

/* statx: linux/stat.h, 6.8 */
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x00004000U
#endif

/* xattr: linux/xattr.h, 6.13; alpha alone has other numbers */
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_getxattrat 464
#define SYS_listxattrat 465
#define SYS_removexattrat 466
#endif
#ifndef XATTR_ARGS_SIZE_VER0
#define XATTR_ARGS_SIZE_VER0 16
struct xattr_args {
	__aligned_u64 value;
	__u32 size;
	__u32 flags;
};
#endif

/* socket(7): asm-generic/socket.h, since 6.5 */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#endif
