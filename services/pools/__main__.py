from services.pools.service import serve
from shared.runtime.main import run_service

run_service("pools", serve)
