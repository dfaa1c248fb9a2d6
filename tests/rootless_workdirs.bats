# Renamed directories and several workdirs, for an ordinary user.
load lib/common

setup() {
	begin
	mkdir -p "$W/dir/d/e/deep"
	cd "$W/dir" || return 1
	echo 1 >d/f
	echo 2 >d/e/g
	chmod 555 d/e/deep
	cp "$SNAP" snap
	find . -exec touch -h -d '2020-02-02 02:02:02.5' {} +
}

teardown() {
	cd "$W" || return 1
	finish
}

@test "rename: an ordinary user's directory is renamed, commit and abort are exact" {
	"$SNAP" d >"$W/before"
	run --separate-stderr sandlock run --name "$N" -- python3 -c '
import os
os.rename("d", "new")
os.rename("new/e", "e")
os.rename("e", "new/e")
os.system("./snap new")'
	expect_status 0
	"$SNAP" d >"$W/still"
	same "$W/before" "$W/still"
	run sandlock commit "$N"
	expect_status 0
	[ ! -e d ]
	[ -d new/e/deep ]
	equal g "$(cat new/e/g)" 2
	equal mode "$(stat -c %a new/e/deep)" 555
	equal mtime "$(stat -c %Y new/e/deep)" "$(date -d '2020-02-02 02:02:02.5' +%s)"
}

@test "workdirs: an ordinary user's, all or nothing" {
	mkdir "$W/other"
	echo 3 >"$W/other/h"
	run sandlock run --name "$N" --workdir "$W/dir" --workdir "$W/other" -- \
		sh -c "echo x >>d/f; echo y >>$W/other/h; mv -T d e"
	expect_status 0
	run sandlock diff "$N"
	expect_output "D $W/dir/d/"
	expect_output "M $W/other/h"
	run sandlock commit "$N"
	expect_status 0
	equal f "$(tail -1 e/f)" x
	equal h "$(tail -1 "$W/other/h")" y
}

@test "workdirs: what subordinate ids own can be changed; owners stay" {
	command -v newuidmap >/dev/null || skip "newuidmap is not installed"
	local sub

	sub=$(grep "^$(id -un):" /etc/subuid | cut -d: -f2)
	[ -n "$sub" ] || skip "no subordinate ids"
	unshare -U --map-users=auto --map-groups=auto true 2>/dev/null ||
		unshare -Ur --map-auto true 2>/dev/null || skip "unshare has no --map-auto"
	chmod 777 d
	unshare -Ur --map-auto sh -c 'echo theirs >d/s && chown 5:5 d/s && chmod 666 d/s'
	owner=$(stat -c %u:%g d/s)
	[ "$owner" != "$(id -u):$(id -g)" ]
	run sandlock run --name "$N" -- sh -c 'id -u; stat -c %u:%g d/s; echo mine >>d/s && mv -T d e'
	expect_status 0
	expect_output "$(id -u)"
	expect_output "$owner"
	run sandlock commit "$N"
	expect_status 0
	equal owner "$(stat -c %u:%g e/s)" "$owner"
	equal text "$(tail -1 e/s)" mine
	unshare -Ur --map-auto sh -c 'chown 0:0 e/s'
}

@test "workdirs: what strangers own and let us change is refused up front" {
	[ "$(stat -c %u:%a /var/tmp)" = 0:1777 ] || skip "/var/tmp is not root's"
	run sandlock run --workdir /var/tmp -- true
	expect_status 125
	expect_match '[0-9]+ objects? in the workdir belongs? to others'
	expect_output '/var/tmp (0:0)'
	equal branches "$(branches_json | jq length)" 0
	# What can only be read is no obstacle.
	run sandlock run --workdir /usr/bin -- true
	expect_exactly ""
}

@test "chroot: an ordinary user's root, on a branch" {
	make_rootfs "$W/root"
	run sandlock run --name "$N" --chroot "$W/root" -w /data -- \
		sh -c 'ls /; echo x >/data/x; echo y >/etc/y; mv -T /var /var2; id -u'
	expect_status 0
	expect_output "$(id -u)"
	equal x "$(cat "$W/root/data/x")" x
	run sandlock diff "$N"
	expect_output 'A etc/y'
	expect_output 'D var/'
	run sandlock commit "$N"
	expect_status 0
	equal y "$(cat "$W/root/etc/y")" y
	[ -d "$W/root/var2/log" ]
}

@test "workdirs: / is for root alone" {
	refused 125 "only root can work in '/'" sandlock run --workdir / -- true
}

@test "chroot: an ordinary user's workdir in it" {
	mkdir -p root/bin root/srv/d
	cp "$(command -v busybox)" root/bin/busybox
	ln -s busybox root/bin/sh
	echo old >root/srv/d/f
	run --separate-stderr sandlock run --name "$N" --chroot root \
		--workdir /srv -- sh -c '/bin/busybox mv d e; echo new >e/f
			echo x >/bin/x; pwd'
	expect_exactly /srv
	[ ! -e root/bin/x ]
	equal f "$(cat root/srv/d/f)" old
	sandlock commit "$N"
	equal f "$(cat root/srv/e/f)" new
	[ ! -e root/srv/d ]
}
