# Has the broker beside this read its configuration again when it has changed: twice, since the imports of a new account
# work only from the second time on.
said=$(cat /etc/nats/*.conf | sha256sum)
while sleep 5; do
	now=$(cat /etc/nats/*.conf | sha256sum)
	if [ "$now" != "$said" ]; then
		kill -HUP "$(cat /run/nats/nats.pid)" && sleep 1 && kill -HUP "$(cat /run/nats/nats.pid)" && said=$now
	fi
done
