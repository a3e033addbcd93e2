from services.scheduler.service import serve
from shared.runtime.service.main import run_service

run_service("scheduler", serve)
