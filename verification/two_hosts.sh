#!/bin/bash
# Two hosts on one machine: network namespaces with a cable between them, one coordinator, two ranks on each.
#
#   two_hosts.sh LAYOUT FOLDER whole              the job runs to its end
#   two_hosts.sh LAYOUT FOLDER unplugged          the cable is pulled in the middle of an operation
#   two_hosts.sh LAYOUT FOLDER dropped            packets vanish without a word, as behind a firewall
#
# FOLDER receives rank.N (what each rank printed), code.N (its exit status), took.N (milliseconds from the cut to its
# end), report.json and after.json (the coordinator once the ranks are gone). Needs root, ip, unshare.
set -u
layout=$1 folder=$2 how=$3

if [ -z "${TWO_HOSTS_INSIDE-}" ]; then
  TWO_HOSTS_INSIDE=1 exec unshare --net --mount --pid --fork --kill-child "$0" "$@"
fi
mount -t tmpfs none /run && mkdir -p /run/netns || exit 2
mount -t proc none /proc || exit 2
for host in left right; do
  ip netns add $host && ip -n $host link set lo up || exit 2
done
ip link add cable-left netns left type veth peer name cable-right netns right || exit 2
ip -n left addr add 10.79.0.1/24 dev cable-left && ip -n left link set cable-left up || exit 2
ip -n right addr add 10.79.0.2/24 dev cable-right && ip -n right link set cable-right up || exit 2

on() { # on HOST COMMAND...
  local host=$1
  shift
  ip netns exec "$host" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$host" "$@"
}

export FAKEGPU_COORDINATOR_TOKEN=between-the-two COLLECTIVES_DIR=$folder/meet LD_LIBRARY_PATH=$layout/lib
address=10.79.0.1:29500
export FAKEGPU_CLUSTER_REPORT_PATH=$folder/report.json
on left sh -c 'echo $$ >"$1/pid" && shift && exec "$@"' sh "$folder" \
  "$layout/bin/fakegpu-coordinator" --transport tcp --address $address >"$folder/coordinator" 2>&1 &
coordinator=$!
for _ in $(seq 200); do
  grep -q listening "$folder/coordinator" && break
  sleep 0.02
done

work=(--loop 20 --op allreduce --bytes 8388608)
[ "$how" = whole ] || work=(--loop 1000000 --op allreduce --bytes 8388608)
mkdir -p "$COLLECTIVES_DIR"
cut_at=$folder/cut
for rank in 0 1 2 3; do
  host=left
  [ $rank -lt 2 ] || host=right
  (
    RANK=$rank WORLD_SIZE=4 FAKEGPU_DIST_MODE=simulate FAKEGPU_COORDINATOR_ADDR=$address \
      on $host "$layout/clients/collectives" "${work[@]}" >"$folder/rank.$rank" 2>&1
    echo $? >"$folder/code.$rank"
    [ -f "$cut_at" ] && echo $(($(date +%s%3N) - $(cat "$cut_at"))) >"$folder/took.$rank"
  ) &
  ranks[rank]=$!
done

if [ "$how" != whole ]; then
  # Operations run once all ranks have joined; half a second is some of them.
  for _ in $(seq 500); do
    on left "$layout/bin/fakegpu" ps --address $address --json 2>/dev/null | grep -q '"staging": *"streamed"' && break
    sleep 0.02
  done
  sleep 0.5
  date +%s%3N >"$cut_at"
  case $how in
    unplugged) ip -n right link set cable-right down ;;
    dropped)
      # Each side believes the other to have another hardware address: what is sent is not taken, and nobody says so.
      ip -n left neigh replace 10.79.0.2 lladdr 02:00:00:00:00:02 dev cable-left nud permanent &&
        ip -n right neigh replace 10.79.0.1 lladdr 02:00:00:00:00:01 dev cable-right nud permanent || exit 3
      ;;
  esac
fi
for rank in 0 1 2 3; do wait "${ranks[rank]}"; done
# The other side's connections end by themselves, a little later than the ranks.
for _ in $(seq 100); do
  on left "$layout/bin/fakegpu" ps --address $address --json >"$folder/after.json" 2>"$folder/after.error"
  grep -q '"ranks": *\[\]' "$folder/after.json" && break
  sleep 0.1
done
kill -TERM "$(cat "$folder/pid")"
wait $coordinator
exit 0
