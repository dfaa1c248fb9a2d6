# What `sandlock spec` writes and what config.json may say (oci.md section 1).
load lib/common

setup() {
	begin
	make_bundle
}

teardown() { finish; }

# accepted: the bundle runs and its program's output is $1.
accepted() {
	run sandlock run -b "$B" "$N"
	expect_status 0 || return 1
	[ $# -eq 0 ] || expect_exactly "$1"
}

# config_refused TEXT: an error that names TEXT, nothing left.
config_refused() {
	refused "$([ "$RUNTIME" = sandlock ] && echo 125 || echo 1)" "$1" \
		sandlock run -b "$B" "$N"
}

@test "spec: writes a config.json that runs" {
	mkdir "$W/new"
	cp -a "$R" "$W/new/rootfs"
	(cd "$W/new" && "${RT[@]}" spec)
	jq -e '.ociVersion and .root.path == "rootfs"
		and .process.args == ["sh"]' "$W/new/config.json"
	B=$W/new
	config '.process.terminal = false | .process.args = ["true"]'
	accepted
}

@test "spec: the root is writable" {
	only_sandlock
	mkdir "$W/new"
	sandlock spec -b "$W/new"
	jq -e '.root.readonly != true' "$W/new/config.json"
}

@test "spec: does not overwrite config.json" {
	before=$(sha256sum "$B/config.json")
	run sandlock spec -b "$B"
	expect_status 1
	expect_output "config.json"
	equal config.json "$(sha256sum "$B/config.json")" "$before"
}

@test "spec: --rootless has a user namespace and maps" {
	mkdir "$W/new"
	(cd "$W/new" && "${RT[@]}" spec --rootless)
	jq -e '(.linux.namespaces | map(.type) | index("user"))
		and .linux.uidMappings[0].containerID == 0
		and .linux.gidMappings[0].containerID == 0
		and (.linux.namespaces | map(.type) | index("network") | not)
		' "$W/new/config.json"
}

@test "ociVersion: 1.x up to ours is accepted" {
	for v in 1.0.0 1.0.2 1.1.0 1.2.0 1.3.0; do
		config '.ociVersion = $v' --arg v "$v"
		accepted ""
	done
}

@test "ociVersion: missing, another major version or garbage is refused" {
	only_sandlock
	for v in '"2.0.0"' '"abc"' '""' '1' 'null'; do
		config ".ociVersion = $v"
		config_refused ociVersion
	done
	config 'del(.ociVersion)'
	config_refused ociVersion
}

@test "unknown properties and annotations are ignored at every level" {
	config '.zzz = 1 | .process.zzz = {} | .linux.zzz = [1]
		| .root.zzz = "x" | .mounts[0].zzz = null
		| .annotations["com.example.unknown"] = "y"'
	accepted ""
}

@test "wrong types are refused with their JSON path" {
	only_sandlock
	local -A wrong=(
		['.process.terminal = "yes"']='process.terminal'
		['.process.env = [1]']='process.env[0]'
		['.process.args = "true"']='process.args'
		['.process.args = ["true", {}]']='process.args[1]'
		['.process.cwd = 1']='process.cwd'
		['.process.user.uid = "0"']='process.user.uid'
		['.process.user.uid = -1']='process.user.uid'
		['.process.user.gid = 4294967296']='process.user.gid'
		['.process.user = []']='process.user'
		['.process.rlimits = {}']='process.rlimits'
		['.process.noNewPrivileges = 1']='process.noNewPrivileges'
		['.process.oomScoreAdj = "1"']='process.oomScoreAdj'
		['.process.oomScoreAdj = 1.5']='process.oomScoreAdj'
		['.root = "rootfs"']='root'
		['.root.path = 5']='root.path'
		['.root.readonly = "no"']='root.readonly'
		['.mounts = {}']='mounts'
		['.mounts[0].destination = 1']='mounts[0].destination'
		['.mounts[0].options = "ro"']='mounts[0].options'
		['.hostname = 1']='hostname'
		['.annotations = []']='annotations'
		['.annotations.a = 1']='annotations'
		['.linux.namespaces = {}']='linux.namespaces'
		['.linux.namespaces[0].type = 1']='linux.namespaces[0].type'
		['.linux.resources.memory.limit = "1"']='linux.resources.memory.limit'
		['.linux.maskedPaths = "x"']='linux.maskedPaths'
		['.linux.sysctl = []']='linux.sysctl'
		['.hooks = []']='hooks'
	)
	for filter in "${!wrong[@]}"; do
		cp "$B/config.json" "$W/good.json"
		config "$filter"
		run sandlock run -b "$B" "$N"
		expect_status 125
		expect_output "${wrong[$filter]}"
		expect_one_error
		cp "$W/good.json" "$B/config.json"
	done
}

@test "values that the specification forbids are refused" {
	only_sandlock
	local -A wrong=(
		['.process.rlimits = [{type:"RLIMIT_BOGUS",soft:1,hard:1}]']='RLIMIT_BOGUS'
		['.process.rlimits = [{type:"RLIMIT_CORE",soft:1,hard:1},{type:"RLIMIT_CORE",soft:2,hard:2}]']='RLIMIT_CORE'
		['.process.rlimits = [{type:"RLIMIT_CORE",soft:2,hard:1}]']='process.rlimits[0]'
		['.process.cwd = "relative"']='process.cwd'
		['.process.env = ["NOEQUALS"]']='process.env[0]'
		['.process.oomScoreAdj = 2000']='process.oomScoreAdj'
		['.process.args = []']='process.args'
		['.linux.namespaces += [{type:"pid"}]']='linux.namespaces'
		['.linux.namespaces += [{type:"bogus"}]']='bogus'
		['.linux.namespaces += [{type:"time",path:"relative"}]']='path'
		['.linux.rootfsPropagation = "bogus"']='linux.rootfsPropagation'
		['.linux.devices = [{path:"/dev/x",type:"z",major:1,minor:3}]']='linux.devices[0].type'
		['.hooks.prestart = [{path:"relative"}]']='hooks.prestart[0].path'
		['.hooks.poststop = [{path:"/bin/true",timeout:0}]']='hooks.poststop[0].timeout'
		['.linux.seccomp = {defaultAction:"SCMP_ACT_BOGUS"}']='SCMP_ACT_BOGUS'
		['.linux.seccomp = {defaultAction:"SCMP_ACT_ALLOW",architectures:["SCMP_ARCH_BOGUS"]}']='SCMP_ARCH_BOGUS'
		['.linux.seccomp = {defaultAction:"SCMP_ACT_ALLOW",syscalls:[{names:[],action:"SCMP_ACT_ALLOW"}]}']='names'
		['.linux.seccomp = {defaultAction:"SCMP_ACT_ALLOW",defaultErrnoRet:1}']='defaultErrnoRet'
		['.linux.seccomp = {defaultAction:"SCMP_ACT_ALLOW",listenerMetadata:"x"}']='listenerMetadata'
		['.linux.seccomp = {defaultAction:"SCMP_ACT_ALLOW",flags:["BOGUS"]}']='BOGUS'
		['.annotations["io.sandlock.branch.on-exit"] = "perhaps"']='io.sandlock.branch.on-exit'
		['.annotations[""] = "x"']='annotations'
	)
	for filter in "${!wrong[@]}"; do
		cp "$B/config.json" "$W/good.json"
		config "$filter"
		run sandlock run -b "$B" "$N"
		expect_status 125
		expect_output "${wrong[$filter]}"
		expect_one_error
		cp "$W/good.json" "$B/config.json"
	done
}

@test "NUL bytes in strings are refused with their JSON path" {
	only_sandlock
	sed -i 's|"true"|"echo", "a\\u0000b"|' "$B/config.json"
	config_refused 'process.args[1]'
}

@test "broken JSON is refused: empty, cut, trailing, no object, deep" {
	only_sandlock
	good=$(cat "$B/config.json")
	: >"$B/config.json"
	config_refused config.json
	head -c 100 <<<"$good" >"$B/config.json"
	config_refused config.json
	echo "$good garbage" >"$B/config.json"
	config_refused config.json
	for text in '[]' '"x"' 1 null; do
		echo "$text" >"$B/config.json"
		config_refused config.json
	done
	{ printf '{"a":'; printf '[%.0s' $(seq 2000); printf ']%.0s' $(seq 2000)
		printf '}'; } >"$B/config.json"
	config_refused config.json
}

@test "a config.json that is too large is refused" {
	only_sandlock
	config '.annotations.big = ("x" * 5000000)'
	config_refused config.json
}

@test "a config.json that is a FIFO or a directory does not hang" {
	only_sandlock
	rm "$B/config.json"
	mkfifo "$B/config.json"
	config_refused config.json
	rm "$B/config.json"
	mkdir "$B/config.json"
	config_refused config.json
}

@test "env: the last of two entries wins, PATH is the bundle's" {
	script 'echo $A'
	config '.process.env += ["A=1", "A=2"]'
	accepted 2
}

@test "env: HOME comes from the root's passwd where it is not given" {
	script 'echo $HOME'
	accepted /root
	config '.process.user = {uid: 1000, gid: 1000}'
	accepted /home
}

@test "args: the program is looked up in the bundle's PATH" {
	mkdir "$R/own"
	printf '#!/bin/sh\necho own\n' >"$R/own/tool"
	chmod 755 "$R/own/tool"
	set_args tool
	config '.process.env = ["PATH=/own:/bin"]'
	accepted own
}

@test "mounts: in order, with relative destinations below the root" {
	config '.mounts += [
		{destination: "late", type: "tmpfs", source: "tmpfs"},
		{destination: "/late/sub", type: "tmpfs", source: "tmpfs",
		 options: ["size=4096k"]}]'
	script 'grep -q " /late " /proc/mounts && grep -q " /late/sub " /proc/mounts && echo yes'
	run sandlock run -b "$B" "$N"
	expect_status 0
	expect_output yes
}

@test "mounts: an option may be longer than fsconfig(2) takes" {
	local long="$B/$(printf 'l%.0s' $(seq 120))"

	mkdir -p "$long/a" "$long/b" "$B/rootfs/mnt"
	echo below >"$long/b/f"
	config '.mounts += [{destination: "/mnt", type: "overlay",
		source: "overlay",
		options: ["lowerdir=" + $l + "/a:" + $l + "/b", "ro"]}]' \
		--arg l "$long"
	script 'cat /mnt/f; touch /mnt/x; grep " /mnt" /proc/mounts | cut -c-20;
		grep -c /m" " /proc/mounts'
	run sandlock run -b "$B" "$N"
	expect_output "below
touch: /mnt/x: Read-only file system
overlay /mnt overlay
0"
}

@test "mounts: options that the kernel would cut are refused" {
	local lower= layer i

	# What it takes ends with the 61st layer.
	for i in $(seq 62); do
		layer=$(printf "%s/%0$((65 - ${#B}))d" "$B" "$i")
		mkdir "$layer"
		lower+=${lower:+:}$layer
	done
	mkdir "$B/rootfs/mnt"
	config '.mounts += [{destination: "/mnt", type: "overlay",
		source: "overlay", options: ["lowerdir=" + $l]}]' --arg l "$lower"
	script 'echo mounted'
	run sandlock run -b "$B" "$N"
	expect_status 125
	expect_output "the kernel takes 4095 bytes of options, not 4162"
	refute_output mounted
}

@test "mounts: bind sources may be relative to the bundle" {
	mkdir "$B/volume"
	echo content >"$B/volume/f"
	config '.mounts += [{destination: "/mnt", type: "none",
		source: "volume", options: ["bind", "ro"]}]'
	script 'cat /mnt/f; echo x >/mnt/g'
	run sandlock run -b "$B" "$N"
	expect_output content
	expect_output "Read-only file system"
	[ ! -e "$B/volume/g" ]
}

@test "mounts: rbind,ro covers the top, rbind,rro all submounts" {
	only_sandlock
	skip_unless_root
	mkdir -p "$B/volume/sub"
	mount -t tmpfs tmpfs "$B/volume/sub"
	config '.mounts += [{destination: "/mnt", source: "volume",
		options: ["rbind", "ro"]}]'
	script 'touch /mnt/x 2>/dev/null || echo top; touch /mnt/sub/x && echo sub'
	run sandlock run -b "$B" "$N"
	expect_exactly $'top\nsub'
	config '.mounts[-1].options = ["rbind", "rro"]'
	script 'touch /mnt/x 2>/dev/null || echo top
		touch /mnt/sub/y 2>/dev/null || echo sub'
	run sandlock run -b "$B" "$N"
	expect_exactly $'top\nsub'
	umount "$B/volume/sub"
}

@test "mounts: flags are exactly those asked for" {
	mkdir "$B/volume"
	config '.mounts += [{destination: "/mnt", source: "volume",
		options: ["bind", "ro", "nosuid", "nodev", "noexec"]}]'
	script 'grep " /mnt " /proc/mounts | cut -d" " -f4'
	run sandlock run -b "$B" "$N"
	expect_match '^ro,nosuid,nodev,noexec,relatime'
}

@test "mounts: a missing bind source is an error that names it" {
	config '.mounts += [{destination: "/mnt", source: "/no/such/source",
		options: ["bind"]}]'
	config_refused /no/such/source
}

@test "mounts: an unknown file system type is an error" {
	config '.mounts += [{destination: "/mnt", type: "bogusfs",
		source: "x"}]'
	config_refused "/mnt"
}

@test "mounts: a single file can be a bind mount" {
	echo file >"$B/file"
	config '.mounts += [{destination: "/etc/new", source: "file",
		options: ["bind"]}]'
	script 'cat /etc/new'
	accepted file
}

@test "mounts: tmpcopyup brings the directory along" {
	only_sandlock
	config '.mounts += [{destination: "/data", type: "tmpfs",
		source: "tmpfs", options: ["tmpcopyup"]}]'
	script 'cat /data/a'
	accepted one
}

@test "mounts: tmpcopyup makes FIFOs, sockets and devices; no device where none may be" {
	only_sandlock
	mkfifo "$R/data/fifo"
	mknod "$R/data/null" c 1 3
	python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$R/data/socket"
	config '.mounts += [{destination: "/data", type: "tmpfs",
		source: "tmpfs", options: ["tmpcopyup"]}]'
	script 'cd /data && stat -c "%n %F" *'
	accepted $'a regular file\nb regular file\nfifo fifo\nnull character special file\nsocket socket'
	chown -R 100000:100000 "$R"
	config '.linux.namespaces += [{type: "user"}]
		| .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}]
		| .linux.gidMappings = .linux.uidMappings'
	accepted $'a regular file\nb regular file\nfifo fifo\nsocket socket'
}

@test "a root given as an absolute path works" {
	config '.root.path = $r' --arg r "$R"
	accepted ""
}

@test "root: missing, no directory, or '/' is refused" {
	config 'del(.root)'
	config_refused root
	config '.root = {path: "no-such-rootfs"}'
	config_refused no-such-rootfs
	echo x >"$B/file"
	config '.root = {path: "file"}'
	config_refused file
}

@test "process: a missing one is an error at start at the latest" {
	config 'del(.process)'
	run sandlock run -b "$B" "$N"
	[ "$status" -ne 0 ]
	expect_output process
}

@test "hostname without its namespace is refused" {
	drop_ns uts
	config_refused UTS
}

@test "state: of a container whose namespaces are gone by their path" {
	touch "$W/uts"
	unshare --uts="$W/uts" true
	drop_ns uts
	config '.linux.namespaces += [{type: "uts", path: $p}]
		| .hostname = "pod"' --arg p "$W/uts"
	set_args sleep 1000
	create_running "$N"
	umount "$W/uts"
	rm "$W/uts"
	equal status "$(status_of "$N")" running
	sandlock kill "$N" KILL
	eventually has_status "$N" stopped
	sandlock delete "$N"
}

@test "a namespace path that does not exist or has the wrong type is refused" {
	only_sandlock
	drop_ns network
	config '.linux.namespaces += [{type: "network", path: "/no/such/ns"}]'
	config_refused /no/such/ns
	config '.linux.namespaces[-1].path = "/proc/self/ns/uts"'
	config_refused /proc/self/ns/uts
}
