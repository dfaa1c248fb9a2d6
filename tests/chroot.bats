# `sandlock run --chroot DIR -- COMMAND`: a root of its own, on a branch.
load lib/common

setup() {
	begin
	only_sandlock
	make_rootfs "$W/root"
	cd "$W" || return 1
}

teardown() {
	cd / || return 1
	finish
}

inside() {
	run sandlock run --name "$N" --chroot "$W/root" "$@"
}

@test "chroot: the command sees that root and writes to its branch" {
	snap root >"$W/before"
	inside -- sh -c 'pwd; ls /; echo new >/data/a; rm /data/b; mkdir /etc/d
		ls /etc; cat /proc/self/status >/dev/null; echo x >/dev/null; ls /dev/pts/ptmx'
	expect_status 0
	expect_output $'/\nbin\ndata\n'
	refute_output sbin
	expect_output /dev/pts/ptmx
	snap root >"$W/after"
	same "$W/before" "$W/after"
	run sandlock diff "$N"
	expect_exactly "D data/b
M data/a (same size)
A etc/d/"
	run sandlock commit "$N"
	expect_status 0
	equal a "$(cat root/data/a)" new
	[ ! -e root/data/b ]
	[ -z "$(ls -A root/proc root/dev | grep -v :)" ]
}

@test "chroot: what changed nothing leaves nothing" {
	rmdir root/proc
	inside -- true
	expect_exactly ""
	[ ! -e root/proc ]
	equal branches "$(branches_json | jq length)" 0
}

@test "chroot: --cwd, -w, -r, --fs-deny and --fs-mount are inside paths" {
	mkdir root/through root/secret host
	echo s >root/secret/s
	echo h >host/h
	inside --cwd /data -w /through -r /etc --fs-deny /secret \
		--fs-mount "/mnt/host:$W/host:ro" -- sh -c 'pwd
		echo t >/through/t; echo d >d; cat /mnt/host/h
		echo x >/etc/x || echo read-only; ls /secret; cat /secret/s; true'
	expect_output /data
	expect_output read-only
	expect_output $'\nh\n'
	refute_output $'\ns\n'
	equal t "$(cat root/through/t)" t
	refused 125 "-r '/not/there' inside of --chroot" \
		sandlock run --chroot root -r /not/there -- true
	refused 125 "-w '/host' inside of --chroot" \
		sandlock run --chroot root -w /host -- true
	run sandlock diff "$N"
	expect_exactly "A data/d"
	sandlock abort "$N"
}

@test "chroot: -r / is read-only, -w / writes through" {
	inside -r / -- sh -c 'echo x >/data/x; ls /data'
	expect_output 'Read-only file system'
	run sandlock run --chroot root -w / -- sh -c 'echo x >/data/x'
	expect_status 0
	equal x "$(cat root/data/x)" x
	equal branches "$(branches_json | jq length)" 0
}

@test "chroot: its devices and set-id bits are none of the command's business" {
	skip_unless_root
	mknod -m 666 root/data/null c 1 3
	inside -- sh -c 'echo x >/data/null'
	expect_output 'Permission denied'
	run sandlock run --chroot root -w / -- sh -c 'echo x >/data/null'
	expect_output 'Permission denied'
	run sandlock run --chroot root -- cat /proc/mounts
	expect_match '/ overlay rw,nosuid,nodev'
}

@test "chroot: in a profile; not with a workdir; a missing one is refused" {
	cat >p.toml <<-END
		[filesystem]
		chroot = "$W/root"
		[program]
		exec = "/bin/cat"
		args = ["/data/a"]
	END
	run sandlock run --profile-file p.toml
	expect_exactly one
	refused 125 "exclude each other" \
		sandlock run --chroot root --workdir "$W" -- true
	refused 125 "--chroot '$W/none'" sandlock run --chroot "$W/none" -- true
}

@test "chroot: directories are renamed, exec works, and no way leads out" {
	inside -- sh -c 'mv -T /data /d2 && mv -T /d2 /d3 && ls /d3
		ls /../../../; cd /; cd ..; pwd; ls -d /var/tmp; chroot /d3 ls'
	expect_output $'a\nb\n'
	refute_output "$W"
	sandlock abort "$N"
	sandlock run --name "$N" --chroot root -- sleep 1000 >/dev/null 2>&1 3>&- &
	started $!
	eventually sandlock exec "$N" sh -c 'echo in >/data/in'
	run sandlock exec "$N" ls /
	refute_output sbin
	sandlock kill "$N"
	wait
	run sandlock diff "$N"
	expect_exactly "A data/in"
	sandlock abort "$N"
}

@test "paths: -r, -w, --fs-deny, --fs-mount, --workdir and --chroot need not be UTF-8" {
	local odd=$W/$'o\xffdd'

	mkdir -p "$odd"/{r,w,d,m,work/d}
	echo r >"$odd/r/f"
	echo d >"$odd/work/d/f"
	run sandlock run --name "$N" --workdir "$odd/work" -r /usr -r /lib -r /lib64 -r /bin \
		-r "$odd/r" -w "$odd/w" --fs-deny "$odd/work/d" \
		--fs-mount "/mnt/x:$odd/m" -- sh -c 'cd ..; cat r/f; echo w >w/f
			echo m >/mnt/x/f; cat work/d/f; echo x >work/new'
	expect_output r
	refute_output $'\nd'
	equal w "$(cat "$odd/w/f")" w
	equal m "$(cat "$odd/m/f")" m
	run sandlock commit "$N"
	expect_status 0
	equal new "$(cat "$odd/work/new")" x
	mv root "$odd/root"
	run sandlock run --name "$N" --chroot "$odd/root" -- sh -c 'echo x >/data/new'
	run sandlock commit "$N"
	expect_status 0
	equal new "$(cat "$odd/root/data/new")" x
}
