# complete.zsh DIR LINE: what zsh offers at the end of LINE with the completion
# functions of DIR, one word a line. zsh completes on a terminal only, so it
# runs in one; compadd is wrapped to print the words that it adds. (With -O, -A
# or -D it only computes.)
zmodload zsh/zpty
typeset dir=$1 line=$2 text

zpty child zsh -f -i
zpty -w child "PS1=; stty -echo; fpath=($dir \$fpath); autoload -Uz compinit"
zpty -w child "compinit -u -D; setopt no_beep"
zpty -w child 'compadd() {
	local -a hits
	local hit

	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
		builtin compadd "$@"
		return
	fi
	builtin compadd -A hits "$@"
	for hit in "${hits[@]}"; do
		print -r -- "<${IPREFIX}${hit}>"
	done
	builtin compadd "$@"
}'
zpty -w child 'finish() { print; print "<<end>>" }; comppostfuncs=(finish)'
zpty -w child 'print "<<ready>>"'
zpty -r child text $'*<<ready>>\r\n'
zpty -w -n child "$line"$'\t'
zpty -r child text $'*<<end>>*'
zpty -d child
print -r -- $text | tr -d '\r' | sed -n 's/^.*<\([^<>]*\)>$/\1/p' | sort -u
