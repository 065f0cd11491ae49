# A program: has a worker of a local Ray forked, or becomes what starts it without a fork. The raylet runs it for each worker.
#
# The arguments are the command that starts the worker without a fork. A shell needs a hundredth of the CPU time of a Python.
# This one tells `worker_forks` its process ID. That reads in /proc what the worker is to be, and ends this shell when there is a
# worker. When `worker_forks` ends, so does what it can be read here.
for each; do
    case $each in --raylet-name=*) folder=${each#*=}.f ;; esac
done
# Ray lets every user replace the folder. The files of a socket cannot be opened by another process.
if [ -O "$folder" ] && [ -O "$folder/asked" ] && [ -p "$folder/asked" ] &&
    ! [ -S /proc/self/fd/0 ] && ! [ -S /proc/self/fd/1 ] && ! [ -S /proc/self/fd/2 ]; then
    # The worker's files, which stay as they are while this shell has others in their places.
    exec 7<&0 8>&1 9>&2
    echo $$ 1<>"$folder/asked"
    # Nothing is ever said there.
    read -r nothing <"$folder/lives"
fi
exec "$@" 7<&- 8>&- 9>&-
