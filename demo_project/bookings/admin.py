from django.contrib import admin

from .models import Booking, Ticket


class TicketInline(admin.TabularInline):
    model = Ticket
    extra = 0
    fields = readonly_fields = ("kind", "reference", "booked_at")
    can_delete = False

    def has_add_permission(self, request, obj=None):
        return False


@admin.register(Booking)
class BookingAdmin(admin.ModelAdmin):
    """To look at. A booking made here would have no jobs: trips are booked through `services.book`."""

    list_display = ("process_instance_id", "visitor", "city", "arrival", "departure", "state", "requested_at")
    list_filter = ("state", "city")
    search_fields = ("visitor", "email", "city")
    readonly_fields = ("state", "requested_at", "confirmed_at", "reminded_at")
    inlines = (TicketInline,)

    def has_add_permission(self, request):
        return False
