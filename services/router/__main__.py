from services.router.service import serve
from shared.runtime.main import run_service

run_service("router", serve)
