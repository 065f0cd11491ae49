#!/bin/sh
# For a spot node of AWS that Kubernetes does not look after: waits for the notice, two minutes before the node ends, and passes it on
# to Ray. Runs on the node beside Ray: nohup sh spot-notice.sh &
metadata=${METADATA:-http://169.254.169.254/latest}

until token=$(curl -sf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$metadata/api/token") &&
  curl -sf -o /dev/null -H "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/spot/instance-action"; do
  sleep 5
done
ray drain-node --reason DRAIN_NODE_REASON_PREEMPTION --reason-message 'notice of AWS' --deadline-remaining-seconds 110
