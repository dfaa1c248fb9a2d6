/* The tables of policy/syscalls.h. */
#include <errno.h>
#include <linux/fs.h>
#include <linux/fscrypt.h>
#include <linux/fsverity.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "policy/syscalls.h"

/*
 * The kernel looks at the lower 32 bits of an int. A comparison of all 64
 * could be evaded by setting others (CVE-2019-7303), so they are masked.
 */
#define IS(i, v)                                         \
	{                                                \
		(i), UINT32_MAX, (v), SCMP_CMP_MASKED_EQ \
	}
#define HAS_BIT(i, bit)                               \
	{                                             \
		(i), (bit), (bit), SCMP_CMP_MASKED_EQ \
	}
#define MASKED(i, mask, v)                           \
	{                                            \
		(i), (mask), (v), SCMP_CMP_MASKED_EQ \
	}
#define ABOVE(i, v)                      \
	{                                \
		(i), (v), 0, SCMP_CMP_GT \
	}
#define IS_NOT(i, v)                     \
	{                                \
		(i), (v), 0, SCMP_CMP_NE \
	}
/* Bit @b is set and the one above it, or of 31 the lowest, is not. So it is for
 * some bit of all that are neither 0 nor all ones. */
#define FALLS_AFTER(b)                                                  \
	MASKED(0, UINT64_C(1) << (b) | UINT64_C(1) << (((b) + 1) % 32), \
	       UINT64_C(1) << (b))
#define ARGS(a) (a), ARRAY_LEN(a)

/* clang-format off */
static const struct spec_seccomp_arg new_namespaces[] = {
	HAS_BIT(0, CLONE_NEWNS), HAS_BIT(0, CLONE_NEWCGROUP),
	HAS_BIT(0, CLONE_NEWUTS), HAS_BIT(0, CLONE_NEWIPC),
	HAS_BIT(0, CLONE_NEWUSER), HAS_BIT(0, CLONE_NEWPID),
	HAS_BIT(0, CLONE_NEWNET),
};
static const struct spec_seccomp_arg personas[] = {
	FALLS_AFTER(0), FALLS_AFTER(1), FALLS_AFTER(2), FALLS_AFTER(3),
	FALLS_AFTER(4), FALLS_AFTER(5), FALLS_AFTER(6), FALLS_AFTER(7),
	FALLS_AFTER(8), FALLS_AFTER(9), FALLS_AFTER(10), FALLS_AFTER(11),
	FALLS_AFTER(12), FALLS_AFTER(13), FALLS_AFTER(14), FALLS_AFTER(15),
	FALLS_AFTER(16), FALLS_AFTER(17), FALLS_AFTER(18), FALLS_AFTER(19),
	FALLS_AFTER(20), FALLS_AFTER(21), FALLS_AFTER(22), FALLS_AFTER(23),
	FALLS_AFTER(24), FALLS_AFTER(25), FALLS_AFTER(26), FALLS_AFTER(27),
	FALLS_AFTER(28), FALLS_AFTER(29), FALLS_AFTER(30), FALLS_AFTER(31),
};
static const struct spec_seccomp_arg prctl_options[] = {
	IS(0, PR_SET_DUMPABLE), IS(0, PR_SET_SECUREBITS), IS(0, PR_SET_MM),
	IS(0, PR_SET_PTRACER),
};
static const struct spec_seccomp_arg terminal_input[] = {
	IS(1, TIOCSTI), IS(1, 0x541C /* TIOCLINUX */),
};
static const struct spec_seccomp_arg interfaces[] = {
	IS(1, SIOCGIFNAME), IS(1, SIOCGIFCONF), IS(1, SIOCGIFFLAGS),
	IS(1, SIOCGIFADDR), IS(1, SIOCGIFDSTADDR), IS(1, SIOCGIFBRDADDR),
	IS(1, SIOCGIFNETMASK), IS(1, SIOCGIFHWADDR), IS(1, SIOCGIFINDEX),
	IS(1, SIOCETHTOOL),
};
/* Not unix (1), inet (2), inet6 (10) or netlink (16). */
static const struct spec_seccomp_arg other_families[] = {
	IS(0, 0), IS(0, 3), IS(0, 4), IS(0, 5), IS(0, 6), IS(0, 7), IS(0, 8),
	IS(0, 9), IS(0, 11), IS(0, 12), IS(0, 13), IS(0, 14), IS(0, 15),
	ABOVE(0, AF_NETLINK),
};
static const struct spec_seccomp_arg other_netlink[] = {
	IS(0, AF_NETLINK), IS_NOT(2, 0 /* NETLINK_ROUTE */),
};
/* The type's upper bits are SOCK_CLOEXEC and SOCK_NONBLOCK. */
static const struct spec_seccomp_arg raw_inet[] = {
	IS(0, AF_INET), MASKED(1, 0xf, SOCK_RAW),
};
static const struct spec_seccomp_arg raw_inet6[] = {
	IS(0, AF_INET6), MASKED(1, 0xf, SOCK_RAW),
};
/*
 * Protocols whose sockets connect elsewhere by other calls than connect
 * (sctp_connectx, subflows of MPTCP), or that no rule names: all but ICMP, TCP,
 * UDP and ICMPv6. Below those there are only protocols of raw sockets.
 */
static const struct spec_seccomp_arg other_protocols[] = {
	IS(2, IPPROTO_DCCP), ABOVE(2, IPPROTO_ICMPV6),
};
/*
 * Source routes: packets would go to another address than was judged. A flow
 * label carries options, too, and who sends with it need not own it.
 */
static const struct spec_seccomp_arg ipv4_options[] = {
	IS(1, IPPROTO_IP), IS(2, IP_OPTIONS),
};
static const struct spec_seccomp_arg ipv6_rthdr[] = {
	IS(1, IPPROTO_IPV6), IS(2, IPV6_RTHDR),
};
static const struct spec_seccomp_arg ipv6_pktoptions[] = {
	IS(1, IPPROTO_IPV6), IS(2, IPV6_2292PKTOPTIONS),
};
static const struct spec_seccomp_arg ipv6_flowlabel[] = {
	IS(1, IPPROTO_IPV6), IS(2, 32 /* IPV6_FLOWLABEL_MGR */),
};
/* Other processes of the same user, wherever they run. */
static const struct spec_seccomp_arg other_process[] = {
	IS_NOT(0, 0),
};
static const struct spec_seccomp_arg other_priority[] = {
	IS_NOT(1, 0),
};
static const struct spec_seccomp_arg user_priority[] = {
	IS(0, PRIO_USER),
};
static const struct spec_seccomp_arg user_io_priority[] = {
	IS(0, 3 /* IOPRIO_WHO_USER */),
};
/* These take no right to write. */
static const struct spec_seccomp_arg file_flags[] = {
	IS(1, FS_IOC_SETFLAGS), IS(1, FS_IOC_FSSETXATTR),
	IS(1, FS_IOC_SETVERSION), IS(1, FS_IOC_ENABLE_VERITY),
	IS(1, 0x40086604 /* EXT4_IOC_SETVERSION */),
	IS(1, FS_IOC_SET_ENCRYPTION_POLICY),
	IS(1, 0x40047211 /* FAT_IOCTL_SET_ATTRIBUTES */),
	/* btrfs, whatever the size of the argument: SNAP_CREATE, SUBVOL_CREATE,
	 * SNAP_DESTROY, DEFAULT_SUBVOL, the V2 of these, SUBVOL_SETFLAGS,
	 * SET_RECEIVED_SUBVOL. */
	MASKED(1, 0xffff, 0x9401), MASKED(1, 0xffff, 0x940e),
	MASKED(1, 0xffff, 0x940f), MASKED(1, 0xffff, 0x9413),
	MASKED(1, 0xffff, 0x9417), MASKED(1, 0xffff, 0x9418),
	MASKED(1, 0xffff, 0x943f), MASKED(1, 0xffff, 0x941a),
	MASKED(1, 0xffff, 0x9425),
};
/* An old name of AF_PACKET. */
static const struct spec_seccomp_arg packet_inet[] = {
	IS(0, AF_INET), MASKED(1, 0xf, SOCK_PACKET),
};

const struct syscall_group_row syscall_groups[SYSCALLS_GROUPS] = {
	[SYSCALLS_NAMESPACE] = { "namespace", false, "a namespace of its own would give capabilities back" },
	[SYSCALLS_MOUNT]     = { "mount",     false, "mounts are what makes paths read-only or hidden" },
	[SYSCALLS_KERNEL]    = { "kernel",    false, "changes the machine, or is a large part of the kernel to attack" },
	[SYSCALLS_CLOCK]     = { "clock",     false, "sets the clock of the machine" },
	[SYSCALLS_DEBUG]     = { "debug",     true,  "reads and changes other processes: debuggers and tracers" },
	[SYSCALLS_KEYS]      = { "keys",      true,  "keyrings belong to the user, not to the sandbox" },
	[SYSCALLS_HANDLES]   = { "handles",   false, "opens files by handle, past every path" },
	[SYSCALLS_IO_URING]  = { "io_uring",  true,  "makes system calls that no filter sees" },
	[SYSCALLS_SYSV_IPC]  = { "sysv_ipc",  true,  "objects of the namespace, which would be the host's" },
	[SYSCALLS_PROCESS]   = { "process",   false, "changes how the process is protected" },
	[SYSCALLS_TERMINAL]  = { "terminal",  false, "types into the terminal of others" },
	[SYSCALLS_NETWORK]   = { "network",   false, "sockets that no rule can judge" },
};

#define ROW(name, group, error) { name, SYSCALLS_##group, error }
#define ROW_SHARED(name, group, error) \
	{ name, SYSCALLS_##group, error, .when = SYSCALL_SHARED_ALL }
#define ROW_IF(name, group, error, args, what) \
	{ name, SYSCALLS_##group, error, ARGS(args), what }

const struct syscall_row syscall_rows[] = {
	ROW("unshare", NAMESPACE, EPERM),
	ROW("setns", NAMESPACE, EPERM),
	ROW_IF("clone", NAMESPACE, EPERM, new_namespaces, "with any CLONE_NEW flag"),
	/* Its flags are in memory; libc takes clone instead. */
	ROW("clone3", NAMESPACE, ENOSYS),

	ROW("mount", MOUNT, EPERM),
	ROW("umount", MOUNT, EPERM),
	ROW("umount2", MOUNT, EPERM),
	ROW("pivot_root", MOUNT, EPERM),
	ROW("chroot", MOUNT, EPERM),
	ROW("open_tree", MOUNT, EPERM),
	ROW("open_tree_attr", MOUNT, EPERM),
	ROW("move_mount", MOUNT, EPERM),
	ROW("fsopen", MOUNT, EPERM),
	ROW("fsconfig", MOUNT, EPERM),
	ROW("fsmount", MOUNT, EPERM),
	ROW("fspick", MOUNT, EPERM),
	ROW("mount_setattr", MOUNT, EPERM),
	ROW("swapon", MOUNT, EPERM),
	ROW("swapoff", MOUNT, EPERM),
	ROW("quotactl", MOUNT, EPERM),
	ROW("quotactl_fd", MOUNT, EPERM),

	ROW("reboot", KERNEL, EPERM),
	ROW("kexec_load", KERNEL, EPERM),
	ROW("kexec_file_load", KERNEL, EPERM),
	ROW("init_module", KERNEL, EPERM),
	ROW("finit_module", KERNEL, EPERM),
	ROW("delete_module", KERNEL, EPERM),
	ROW("create_module", KERNEL, EPERM),
	ROW("get_kernel_syms", KERNEL, EPERM),
	ROW("query_module", KERNEL, EPERM),
	ROW("bpf", KERNEL, EPERM),
	ROW("perf_event_open", KERNEL, EPERM),
	ROW("userfaultfd", KERNEL, EPERM),
	ROW("memfd_secret", KERNEL, EPERM),
	ROW("ioperm", KERNEL, EPERM),
	ROW("iopl", KERNEL, EPERM),
	ROW("acct", KERNEL, EPERM),
	ROW("syslog", KERNEL, EPERM),
	ROW("lookup_dcookie", KERNEL, EPERM),
	ROW("nfsservctl", KERNEL, EPERM),
	ROW("fanotify_init", KERNEL, EPERM),
	ROW("uselib", KERNEL, EPERM),
	ROW("sethostname", KERNEL, EPERM),
	ROW("setdomainname", KERNEL, EPERM),

	ROW("settimeofday", CLOCK, EPERM),
	ROW("stime", CLOCK, EPERM),
	ROW("adjtimex", CLOCK, EPERM),
	ROW("clock_settime", CLOCK, EPERM),
	ROW("clock_settime64", CLOCK, EPERM),
	ROW("clock_adjtime", CLOCK, EPERM),
	ROW("clock_adjtime64", CLOCK, EPERM),

	ROW("ptrace", DEBUG, EPERM),
	ROW("process_vm_readv", DEBUG, EPERM),
	ROW("process_vm_writev", DEBUG, EPERM),
	ROW("process_madvise", DEBUG, EPERM),
	ROW("pidfd_getfd", DEBUG, EPERM),
	ROW("kcmp", DEBUG, EPERM),

	ROW("add_key", KEYS, EPERM),
	ROW("request_key", KEYS, EPERM),
	ROW("keyctl", KEYS, EPERM),

	ROW("name_to_handle_at", HANDLES, EPERM),
	ROW("open_by_handle_at", HANDLES, EPERM),

	ROW("io_uring_setup", IO_URING, EPERM),
	ROW("io_uring_enter", IO_URING, EPERM),
	ROW("io_uring_register", IO_URING, EPERM),

	ROW_SHARED("shmget", SYSV_IPC, EPERM),
	ROW_SHARED("shmat", SYSV_IPC, EPERM),
	ROW_SHARED("shmdt", SYSV_IPC, EPERM),
	ROW_SHARED("shmctl", SYSV_IPC, EPERM),
	ROW_SHARED("msgget", SYSV_IPC, EPERM),
	ROW_SHARED("msgsnd", SYSV_IPC, EPERM),
	ROW_SHARED("msgrcv", SYSV_IPC, EPERM),
	ROW_SHARED("msgctl", SYSV_IPC, EPERM),
	ROW_SHARED("semget", SYSV_IPC, EPERM),
	ROW_SHARED("semop", SYSV_IPC, EPERM),
	ROW_SHARED("semctl", SYSV_IPC, EPERM),
	ROW_SHARED("semtimedop", SYSV_IPC, EPERM),
	ROW_SHARED("semtimedop_time64", SYSV_IPC, EPERM),
	ROW_SHARED("mq_open", SYSV_IPC, EPERM),
	ROW_SHARED("mq_unlink", SYSV_IPC, EPERM),

	ROW_IF("personality", PROCESS, EPERM, personas, "to change it; asking for it and 0 are allowed"),
	ROW_IF("prctl", PROCESS, EPERM, prctl_options, "PR_SET_DUMPABLE, PR_SET_SECUREBITS, PR_SET_MM, PR_SET_PTRACER"),

	ROW("vhangup", TERMINAL, EPERM),
	ROW_IF("ioctl", TERMINAL, EPERM, terminal_input, "TIOCSTI, TIOCLINUX"),

	ROW_IF("socket", NETWORK, EAFNOSUPPORT, other_families, "of a family other than unix, inet, inet6, netlink"),
	ROW_IF("socket", NETWORK, EAFNOSUPPORT, other_netlink, "netlink other than NETLINK_ROUTE"),
	ROW_IF("socket", NETWORK, EPERM, raw_inet, "SOCK_RAW of inet"),
	ROW_IF("socket", NETWORK, EPERM, raw_inet6, "SOCK_RAW of inet6"),
	ROW_IF("socket", NETWORK, EPERM, packet_inet, "SOCK_PACKET of inet"),
	{ "socket", SYSCALLS_NETWORK, EPROTONOSUPPORT, ARGS(other_protocols), "of a protocol other than icmp, tcp, udp", SYSCALL_SHARED_NETWORK },
	{ "setsockopt", SYSCALLS_NETWORK, EPERM, ARGS(ipv4_options), "IP_OPTIONS", SYSCALL_SHARED_NETWORK },
	{ "setsockopt", SYSCALLS_NETWORK, EPERM, ARGS(ipv6_rthdr), "IPV6_RTHDR", SYSCALL_SHARED_NETWORK },
	{ "setsockopt", SYSCALLS_NETWORK, EPERM, ARGS(ipv6_pktoptions), "IPV6_2292PKTOPTIONS", SYSCALL_SHARED_NETWORK },
	{ "setsockopt", SYSCALLS_NETWORK, EPERM, ARGS(ipv6_flowlabel), "IPV6_FLOWLABEL_MGR", SYSCALL_SHARED_NETWORK },
	ROW_IF("socketpair", NETWORK, EAFNOSUPPORT, other_families, "of a family other than unix, inet, inet6, netlink"),
	{ "ioctl", SYSCALLS_NETWORK, EPERM, ARGS(interfaces), "SIOCGIF*, SIOCETHTOOL: interfaces of the host", SYSCALL_SHARED_NETWORK },

	{ "prlimit64", SYSCALLS_PROCESS, EPERM, ARGS(other_process), "of a process by its number", SYSCALL_SHARED_ALL },
	{ "setpriority", SYSCALLS_PROCESS, EPERM, ARGS(other_priority), "of others by their number", SYSCALL_SHARED_ALL },
	{ "setpriority", SYSCALLS_PROCESS, EPERM, ARGS(user_priority), "PRIO_USER", SYSCALL_SHARED_ALL },
	{ "ioprio_set", SYSCALLS_PROCESS, EPERM, ARGS(other_priority), "of others by their number", SYSCALL_SHARED_ALL },
	{ "ioprio_set", SYSCALLS_PROCESS, EPERM, ARGS(user_io_priority), "IOPRIO_WHO_USER", SYSCALL_SHARED_ALL },
	{ "ioctl", SYSCALLS_PROCESS, EPERM, ARGS(file_flags), "FS_IOC_SETFLAGS and the like, of files", SYSCALL_SHARED_ALL },
	{ "setxattrat", SYSCALLS_PROCESS, ENOSYS, .when = SYSCALL_SHARED_ALL },
	{ "removexattrat", SYSCALLS_PROCESS, ENOSYS, .when = SYSCALL_SHARED_ALL },
	{ "file_setattr", SYSCALLS_PROCESS, ENOSYS, .when = SYSCALL_SHARED_ALL },
};
/* clang-format on */

const size_t syscall_rows_len = ARRAY_LEN(syscall_rows);
