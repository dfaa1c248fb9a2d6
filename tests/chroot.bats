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
	# What is worked in is written to, whatever may be read.
	inside --workdir / -r / -- sh -c 'echo x >/data/new'
	expect_status 0
	run sandlock abort "$N"
	expect_status 0
}

@test "chroot: /proc and /dev are the sandbox's own, a mount need not be there" {
	rmdir root/proc
	mkdir root/dev/mine work
	inside -r /proc -r /dev/ -w /work --fs-mount /work:"$W/work" -- \
		sh -c 'ls /dev; cat /proc/1/comm; echo x >/work/f'
	expect_status 0
	expect_output null
	refute_output mine
	equal f "$(cat work/f)" x
	# Nor is the host's shown where there is no root of its own.
	run sandlock run -r /proc -r /usr -r /bin -r /lib -r /lib64 -- \
		sh -c "stat -fc %T /proc; [ ! -e /proc/$$ ]"
	expect_status 0
	expect_exactly proc
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

@test "chroot: in a profile; a missing one is refused" {
	cat >p.toml <<-END
		[filesystem]
		chroot = "$W/root"
		[program]
		exec = "/bin/cat"
		args = ["/data/a"]
	END
	run sandlock run --profile-file p.toml
	expect_exactly one
	refused 125 "--chroot '$W/none'" sandlock run --chroot "$W/none" -- true
}

@test "chroot: with a workdir only that one is on a branch, and the rest is read-only" {
	mkdir -p root/srv/app/src root/tmp host
	echo old >root/srv/app/src/f
	ln -s srv/app root/app
	ln -s "$W/host" root/out
	snap root >"$W/before"
	inside --workdir /app -- sh -c 'pwd; ls /; cat src/f; echo new >src/f
		mv -T src lib; mkdir d; ls /srv/app; ls /proc/self/fd >/dev/null
		echo x >/data/a; echo x >/n; echo t >/tmp/t && cat /tmp/t
		echo x >/dev/null; ls -d /var/tmp'
	expect_output $'/srv/app\n'
	expect_output $'\nold\nd\nlib\n'
	expect_output "/data/a: Read-only file system"
	expect_output "/n: Read-only file system"
	expect_output $'\nt\n'
	refute_output sbin
	snap root >"$W/after"
	same "$W/before" "$W/after"
	run sandlock diff "$N"
	expect_exactly "D src/
A d/
A lib/
A lib/f"
	equal lower "$(branches_json | jq -r '.[0].lower')" "$W/root/srv/app"
	sandlock commit "$N"
	equal f "$(cat root/srv/app/lib/f)" new
	equal data "$(cat root/data/a)" one
}

@test "chroot: several workdirs, --cwd, denied and mounted paths" {
	mkdir -p root/a/secret root/b/in root/c root/mnt host
	echo s >root/a/secret/s
	echo h >host/h
	touch root/empty
	inside --workdir /a --workdir /b --cwd /b/in --fs-deny /a/secret \
		-w /c --fs-mount "/mnt:$W/host:ro" -- sh -c 'pwd; echo 1 >/a/1
		echo 2 >2; echo 3 >/c/3; cat /a/secret/s; cat /mnt/h; cat /data/a'
	expect_output /b/in
	expect_output one
	refute_output $'\ns\n'
	equal c "$(cat root/c/3)" 3
	[ ! -e root/a/1 ]
	run sandlock diff "$N"
	expect_exactly "A $W/root/a/1
A $W/root/b/in/2"
	sandlock commit "$N"
	equal 1 "$(cat root/a/1)" 1
	equal 2 "$(cat root/b/in/2)" 2
	refused 125 "--fs-mount '/b/../a/in' lies in the workdir '/a'" \
		sandlock run --chroot root --workdir /a \
		--fs-mount "/b/../a/in:$W/host" -- true
	refused 125 "'/none' inside of --chroot" \
		sandlock run --chroot root --workdir /none -- true
	refused 125 "root/data/a' is no directory" \
		sandlock run --chroot root --workdir /data/a -- true
	ln -s "$W/host" root/out
	refused 125 "'/out' inside of --chroot" \
		sandlock run --chroot root --workdir /out -- true
	refused 125 "is the root of the host" \
		sandlock run --chroot / --workdir /etc -- true
}

@test "chroot: -w / with a workdir; a workdir / is all of it; exec and stages" {
	run sandlock run --name "$N" --chroot root -w / --workdir /data -- \
		sh -c 'echo x >/data/a; echo x >/etc/x'
	expect_status 0
	equal a "$(cat root/data/a)" one
	equal x "$(cat root/etc/x)" x
	run sandlock diff --name-status "$N"
	expect_exactly "M	a"
	sandlock abort "$N"
	run sandlock run --name "$N" --chroot root --workdir / --workdir /data -- \
		sh -c 'pwd; echo y >/data/y; echo y >/etc/y'
	expect_output $'/\n'
	run sandlock diff --name-status "$N"
	expect_exactly "A	data/y"$'\n'"A	etc/y"
	sandlock abort "$N"
	sandlock run --name "$N" --chroot root --workdir /data -- sleep 1000 \
		>/dev/null 2>&1 3>&- &
	started $!
	eventually sandlock exec "$N" sh -c 'echo in >/data/in'
	run sandlock exec "$N" sh -c 'pwd; ls /; echo x >/etc/in'
	expect_output "Read-only file system"
	refute_output sbin
	sandlock kill "$N"
	wait
	run sandlock diff "$N"
	expect_exactly "A in"
	sandlock abort "$N"
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
