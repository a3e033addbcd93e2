from services.router.service import serve
from shared.runtime.service.main import run_service

run_service("router", serve)
