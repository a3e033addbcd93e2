from services.pools.service import serve
from shared.runtime.embedded import child
from shared.runtime.service import strays
from shared.runtime.service.main import run_service

run_service("pools", strays.ended(serve, child.own))
