# Has the broker beside this read its configuration again when it has changed: twice, since the imports of a new account
# work only from the second time on. Once at the beginning, too: what changed since the broker had started.
said=
while sleep 5; do
	now=$(cat /etc/nats/*.conf | sha256sum)
	if [ "$now" != "$said" ]; then
		kill -HUP "$(cat /run/nats/nats.pid)" && sleep 1 && kill -HUP "$(cat /run/nats/nats.pid)" && said=$now
	fi
done
